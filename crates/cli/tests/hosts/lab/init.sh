#!/bin/busybox sh
# The first process of a guest. It runs what the test asks for, each line of the console a script in /lab.
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/usr/bin:/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp; mount -t cgroup2 cgroup /sys/fs/cgroup
word() { tr ' ' '\n' < /proc/cmdline | sed -n "s/^$1=//p"; }
guest=$(word labguest)
mount -r -t hostfs -o / none /host
mount -t hostfs -o "$(word labfolder)" none /lab
for name in usr lib lib64; do [ ! -e /host/$name ] || ln -s /host/$name /$name; done
for module in /modules/*.ko; do insmod $module; done
ln -s "/host$(word labprogram)/verge" /bin/verge
hostname guest$guest; ip link set lo up; ip addr add 10.9.0.$guest/24 dev vec0; ip link set vec0 up
stty -echo
echo READY
while read -r job; do
  (
    # Where busybox has less of the same, the machine's programs are meant, which its shell would not look for.
    sh -c "date() { /usr/bin/date \"\$@\"; }; tc() { /usr/sbin/tc \"\$@\"; }
      echo \$\$ > /lab/$job.pid; . /lab/$job.sh" > /lab/$job.out 2>&1 < /dev/null
    echo $? > /lab/$job.ended; mv /lab/$job.ended /lab/$job.rc
  ) &
done
while :; do sleep 1000; done
