//! How routers are reached: over TLS, and through a proxy, where that is configured.

use crate::Trouble;
use crate::log::Lines;
use crate::users::read_password;
use config::{Login, SiteConfig};
use host::tls::server_name;
use host::{Helpers, Place, Target, Whereabouts, look_for};
use std::sync::Arc;
use wire::{ProxyKind, Tunnel};

/// See the module's words.
#[derive(Clone)]
pub struct Approach {
    secure: bool,
    proxy: Option<Proxied>,
}

#[derive(Clone)]
struct Proxied {
    kind: ProxyKind,
    whereabouts: Whereabouts,
    login: Option<(String, String)>,
}

impl Approach {
    /// Without a proxy.
    pub fn direct(secure: bool) -> Approach {
        Approach { secure, proxy: None }
    }

    /// As a site reaches routers.
    pub fn of(site: &SiteConfig, lines: &Lines, helpers: &Helpers) -> Result<Approach, Trouble> {
        let mut approach = Approach::direct(site.secure);
        if let Some((address, login)) = &site.proxy {
            let login = proxy_login(login)?;
            let whereabouts = look(&address.place, "uplink.proxy", lines, helpers).map_err(Trouble)?;
            approach.proxy = Some(Proxied { kind: address.kind, whereabouts, login });
        }
        Ok(approach)
    }

    /// How a broker at this place is reached. `what`: for what the place is asked, in the log.
    pub fn reach(
        &self,
        place: &Place,
        what: &str,
        lines: &Lines,
        helpers: &Helpers,
    ) -> Result<Target, String> {
        let name = self.secure.then(|| server_name(place.host())).transpose();
        let name = name.map_err(|error| error.to_string())?;
        let Some(Proxied { kind, whereabouts, login }) = &self.proxy else {
            return Ok(Target { whereabouts: look(place, what, lines, helpers)?, name, tunnel: None });
        };
        let login = login.as_ref().map(|(user, password)| (&**user, &**password));
        let tunnel =
            Tunnel::new(*kind, place.host(), place.port(), login).map_err(|error| error.to_string())?;
        Ok(Target { whereabouts: whereabouts.clone(), name, tunnel: Some(Arc::new(tunnel)) })
    }
}

/// Who a site is at its proxy.
pub fn proxy_login(login: &Login) -> Result<Option<(String, String)>, Trouble> {
    let password = login.password_file.as_deref().map(read_password).transpose()?;
    Ok(login.user.clone().zip(password))
}

fn look(place: &Place, what: &str, lines: &Lines, helpers: &Helpers) -> Result<Whereabouts, String> {
    let (said, what) = (lines.clone(), what.to_owned());
    let tell = move |line: &str| said.warn(&format!("note: {what}: {line}"));
    look_for(place.clone(), tell, helpers).map_err(|error| error.to_string())
}
