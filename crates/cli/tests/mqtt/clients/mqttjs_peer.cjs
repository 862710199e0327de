// An MQTT.js client that waits for what should happen.
'use strict'
const fs = require('fs')
const mqtt = require('mqtt')

const PATIENCE_MS = 10000

const all = []
// Looked at whenever something has happened to any peer, since some wait for what several have together.
let waiting = []
const changed = () => { waiting = waiting.filter((look) => !look()) }

function wait (who, what, so) {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      waiting = waiting.filter((other) => other !== look)
      reject(new Error(`${who.name}: no ${what} within ${PATIENCE_MS} ms; came ${who.messages.map((m) => m.payload)}`))
    }, PATIENCE_MS)
    const look = () => {
      if (!so()) return false
      clearTimeout(late)
      resolve()
      return true
    }
    if (!look()) waiting.push(look)
  })
}

class Peer {
  // `version` is 3 or 5, `expiry` how long its session outlives the connection.
  static async connect (way, name, version, { expiry = 0, fresh = true, will, more = {} } = {}) {
    const peer = new Peer()
    Object.assign(peer, { name, messages: [], session: null, ended: false, reason: null, killed: false })
    const scheme = way.websocket ? 'ws' : way.authority ? 'mqtts' : 'mqtt'
    const read = (file) => file && fs.readFileSync(file)
    peer.client = mqtt.connect(`${scheme}://127.0.0.1:${way.port}`, {
      clientId: name,
      protocolVersion: version === 5 ? 5 : 4,
      clean: version === 5 ? fresh : expiry === 0,
      reconnectPeriod: 0,
      resubscribe: false,
      keepalive: 60,
      will,
      ca: read(way.authority),
      cert: read(way.certificate),
      key: read(way.key),
      ...(version === 5 ? { properties: { sessionExpiryInterval: expiry } } : {}),
      ...more
    })
    const note = (event, act) => peer.client.on(event, (...given) => { act(...given); changed() })
    note('connect', (packet) => { peer.session = packet.sessionPresent })
    note('message', (topic, payload, packet) => peer.messages.push({
      topic, payload: payload.toString(), qos: packet.qos, retain: packet.retain, properties: packet.properties || {}
    }))
    note('disconnect', (packet) => { peer.reason = packet.reasonCode })
    note('close', () => { peer.ended = true })
    note('error', (error) => { peer.error = error })
    all.push(peer)
    await peer.wait('CONNACK', () => peer.session !== null || peer.ended)
    if (peer.session === null) throw new Error(`${name}: not connected: ${peer.error}`)
    return peer
  }

  wait (what, so) { return wait(this, what, so) }

  async subscribe (topic, qos = 0, { identifier, ...options } = {}) {
    if (identifier) options.properties = { subscriptionIdentifier: identifier }
    const granted = await this.client.subscribeAsync(topic, { qos, ...options })
    return granted[0].qos
  }

  // Waits until the broker has answered, but for QoS 0.
  async publish (topic, payload, qos = 0, retain = false, properties) {
    await this.client.publishAsync(topic, payload, { qos, retain, properties })
  }

  async take () {
    await this.wait('message', () => this.messages.length > 0)
    return this.messages.shift()
  }

  async expect (...payloads) {
    const came = []
    for (const wanted of payloads) {
      const message = await this.take()
      if (message.payload !== wanted) throw new Error(`${this.name}: ${message.payload} instead of ${wanted}`)
      came.push(message)
    }
    return came
  }

  kill () {
    this.killed = true
    this.client.stream.destroy()
  }

  leave () { return this.client.endAsync() }

  static async end () {
    for (const peer of all.splice(0)) await peer.client.endAsync(true)
  }
}

module.exports = { Peer }
