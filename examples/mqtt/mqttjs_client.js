#!/usr/bin/env node
// MQTT.js with two brokers: it goes through `servers` by itself whenever a connection ends, and sends again what was not answered.
// BROKERS=host:port,host:port says where they are.
'use strict'
const mqtt = require('mqtt')

const addresses = (process.env.BROKERS || '127.0.0.1:1883,127.0.0.1:1884').split(',')
const servers = addresses.map((address) => {
  const [host, port] = address.split(':')
  return { host, port: Number(port), protocol: 'mqtt' }
})
const wanted = Number(process.env.MESSAGES || 5)

const client = mqtt.connect({
  servers,
  protocolVersion: 5,
  clientId: `mqttjs-example-${process.pid}`,
  clean: false,
  properties: { sessionExpiryInterval: 600 },
  reconnectPeriod: 100,
  keepalive: 5
})
const came = new Set()
let answered = 0

const late = setTimeout(() => {
  console.error('not everything came within 30 s')
  process.exit(1)
}, 30000)

function endWhenAllIsThere () {
  if (came.size < wanted || answered < wanted) return
  clearTimeout(late)
  client.end()
}

client.on('error', (error) => console.log(error.message))
client.on('message', (topic, payload, packet) => {
  console.log(topic, payload.toString(), packet.properties?.userProperties?.unit ?? '')
  came.add(payload.toString())
  endWhenAllIsThere()
})
client.once('connect', async () => {
  await client.subscribeAsync('plant/+/temperature', { qos: 1 })
  for (let number = 0; number < wanted; number++) {
    const properties = { userProperties: { unit: 'celsius' }, contentType: 'text/plain' }
    await client.publishAsync('plant/line2/temperature', `21.${number}`, { qos: 1, properties })
    answered += 1
  }
  endWhenAllIsThere()
})
