// What MQTT promises, tried with MQTT.js. Arguments: a JSON object that says where the broker is, and names of scenarios (all).
'use strict'
const assert = require('assert')
const { Peer } = require('./mqttjs_peer.cjs')

const scenarios = {}
function scenario (versions, name, act) {
  for (const version of versions) scenarios[`${name}-${version}`] = { act, version }
}

const count = (length, name = (number) => `${number}`) => Array.from({ length }, (_, number) => name(number))
const pairs = (properties) => Object.fromEntries(Object.entries(properties.userProperties))

scenario([3, 5], 'qos', async ({ peer, topic }) => {
  const publisher = await peer('publisher')
  for (const wanted of [0, 1, 2]) {
    const subscriber = await peer(`subscriber-${wanted}`)
    assert.equal(await subscriber.subscribe(topic('+'), wanted), wanted)
    for (const sent of [0, 1, 2]) {
      const texts = count(5, (number) => `${sent} ${number}`)
      for (const text of texts) await publisher.publish(topic('t'), text, sent)
      for (const message of await subscriber.expect(...texts)) {
        assert.equal(message.qos, Math.min(sent, wanted))
        assert(!message.retain && message.topic === topic('t'))
      }
    }
    await subscriber.client.unsubscribeAsync(topic('+'))
    await subscriber.subscribe(topic('marker'))
    await publisher.publish(topic('t'), 'nobody\'s')
    await publisher.publish(topic('marker'), 'marker')
    await subscriber.expect('marker')
    await subscriber.leave()
  }
  const big = await peer('big')
  await big.subscribe(topic('big'), 1)
  const text = '0123456789abcdef'.repeat(4096)
  await publisher.publish(topic('big'), text, 1)
  await big.expect(text)
})

scenario([3, 5], 'retained', async ({ peer, topic }) => {
  const publisher = await peer('publisher')
  const live = await peer('live')
  await live.subscribe(topic('#'), 1)
  await publisher.publish(topic('kept'), 'old', 1, true)
  await publisher.publish(topic('kept'), 'new', 1, true)
  for (const message of await live.expect('old', 'new')) assert(!message.retain)
  const late = await peer('late')
  await late.subscribe(topic('#'), 1)
  assert((await late.expect('new'))[0].retain)
  await publisher.publish(topic('kept'), '', 1, true)
  await live.expect('')
  const after = await peer('after')
  await after.subscribe(topic('#'), 1)
  await publisher.publish(topic('marker'), 'marker', 1)
  await after.expect('marker')
})

scenario([3, 5], 'will', async ({ peer, topic }) => {
  const watcher = await peer('watcher')
  await watcher.subscribe(topic('#'), 1)
  const dying = (name, more) => peer(name, { will: { topic: topic(name), payload: name, qos: 1, ...more } })
  ;(await dying('killed')).kill()
  await watcher.expect('killed')
  await (await dying('leaving')).leave()
  ;(await dying('kept', { retain: true })).kill()
  assert(!(await watcher.expect('kept'))[0].retain)
  const late = await peer('late')
  await late.subscribe(topic('#'))
  assert((await late.expect('kept'))[0].retain)
})

scenario([3, 5], 'session', async ({ peer, topic }) => {
  const first = await peer('keeper', { expiry: 60 })
  assert.equal(first.session, false)
  await first.subscribe(topic('#'), 2)
  await first.leave()
  const publisher = await peer('publisher')
  const texts = { 1: count(30, (number) => `1 ${number}`), 2: count(30, (number) => `2 ${number}`) }
  for (let number = 0; number < 30; number++) {
    for (const sent of [1, 2]) await publisher.publish(topic('t'), texts[sent][number], sent)
  }
  const second = await peer('keeper', { expiry: 60, fresh: false })
  assert.equal(second.session, true)
  const came = { 1: [], 2: [] }
  while (came[1].length + came[2].length < 60) {
    const message = await second.take()
    came[message.qos].push(message.payload)
  }
  assert.deepEqual(came, texts)
  second.kill()
  await publisher.publish(topic('t'), 'while away', 1)
  const third = await peer('keeper', { expiry: 60, fresh: false })
  await third.expect('while away')
  await third.leave()
  const fourth = await peer('keeper')
  assert.equal(fourth.session, false)
  await fourth.subscribe(topic('marker'))
  await publisher.publish(topic('t'), 'nobody\'s', 1)
  await publisher.publish(topic('marker'), 'marker', 1)
  await fourth.expect('marker')
})

scenario([3, 5], 'shared', async ({ peer, topic }) => {
  const members = [await peer('member-0'), await peer('member-1')]
  for (const member of members) await member.subscribe(`$share/group/${topic('t')}`, 1)
  const other = await peer('other')
  await other.subscribe(topic('t'), 1)
  const publisher = await peer('publisher')
  const texts = count(60)
  for (const text of texts) await publisher.publish(topic('t'), text, 1)
  await other.expect(...texts)
  const parts = () => members.map((member) => member.messages.map((message) => message.payload))
  await members[0].wait('share', () => parts().flat().length >= texts.length)
  assert.deepEqual(parts().flat().sort((a, b) => a - b), texts)
  assert(parts().every((part) => part.length > 0))
  await members[0].leave()
  await publisher.publish(topic('t'), 'rest', 1)
  await members[1].wait('message for who is left', () => members[1].messages.at(-1).payload === 'rest')
})

scenario([3, 5], 'takeover', async ({ peer, topic, version, way }) => {
  const first = await peer('one')
  const second = await peer('one')
  await first.wait('end of the first connection', () => first.ended)
  if (version === 5 && way.says_why) assert.equal(first.reason, 0x8e)
  await second.subscribe(topic('t'), 1)
  await second.publish(topic('t'), 'still here', 1)
  await second.expect('still here')
})

scenario([5], 'properties', async ({ peer, topic }) => {
  const subscriber = await peer('subscriber')
  const publisher = await peer('publisher')
  await subscriber.subscribe(topic('t'), 1)
  const given = {
    userProperties: { unit: ['K', 'again'], ä: 'ö' },
    responseTopic: 'answers/1',
    correlationData: Buffer.from([0, 255, 1]),
    contentType: 'text/plain',
    payloadFormatIndicator: true,
    messageExpiryInterval: 60
  }
  await publisher.publish(topic('t'), '21.5', 1, false, given)
  const { messageExpiryInterval, userProperties, ...got } = (await subscriber.expect('21.5'))[0].properties
  assert(messageExpiryInterval > 0 && messageExpiryInterval <= 60)
  assert.deepEqual({ ...userProperties }, given.userProperties)
  const { messageExpiryInterval: _sent, userProperties: _pairs, ...rest } = given
  assert.deepEqual(got, rest)
  await publisher.publish(topic('t'), 'kept', 1, true, { userProperties: { a: 'b' }, contentType: 'a/b' })
  const late = await peer('late')
  await late.subscribe(topic('t'), 1)
  const kept = (await late.expect('kept'))[0].properties
  assert.deepEqual([pairs(kept), kept.contentType], [{ a: 'b' }, 'a/b'])
})

scenario([5], 'expiry', async ({ peer, topic }) => {
  const away = await peer('away', { expiry: 60 })
  await away.subscribe(topic('#'), 1)
  await away.leave()
  const publisher = await peer('publisher')
  await publisher.publish(topic('t'), 'short', 1, false, { messageExpiryInterval: 1 })
  await publisher.publish(topic('t'), 'long', 1, false, { messageExpiryInterval: 60 })
  // An interval that must pass, in whole seconds of the broker's clock.
  await new Promise((resolve) => setTimeout(resolve, 2100))
  const back = await peer('away', { expiry: 60, fresh: false })
  const left = (await back.expect('long'))[0].properties.messageExpiryInterval
  assert(left >= 1 && left <= 58, `${left} s are left of 60`)
})

scenario([5], 'options', async ({ peer, topic }) => {
  const one = await peer('one')
  const other = await peer('other')
  await one.subscribe(topic('local/#'), 1, { nl: true })
  await one.publish(topic('local/t'), 'own', 1)
  await other.publish(topic('local/t'), 'other\'s', 1)
  await one.expect('other\'s')
  await one.subscribe(topic('plain'), 1)
  await one.subscribe(topic('marked'), 1, { rap: true })
  for (const [name, flag] of [['plain', false], ['marked', true]]) {
    await other.publish(topic(name), name, 1, true)
    assert.equal((await one.expect(name))[0].retain, flag)
  }
  // 0: always, 1: only for a new subscription, 2: never.
  for (const [rh, ...expected] of [[0, true, true], [1, true, false], [2, false, false]]) {
    const late = await peer(`handling-${rh}`)
    await late.subscribe(topic('marker'), 1)
    for (const comes of expected) {
      await late.subscribe(topic('plain'), 1, { rh })
      await other.publish(topic('marker'), 'marker', 1)
      await late.expect(...(comes ? ['plain', 'marker'] : ['marker']))
    }
  }
})

scenario([5], 'identifiers', async ({ peer, topic }) => {
  const subscriber = await peer('subscriber')
  const publisher = await peer('publisher')
  await subscriber.subscribe(topic('a/+'), 1, { identifier: 1 })
  await subscriber.subscribe(topic('+/b'), 1, { identifier: 268435455 })
  await publisher.publish(topic('a/c'), 'one', 1)
  assert.deepEqual([(await subscriber.expect('one'))[0].properties.subscriptionIdentifier].flat(), [1])
  await publisher.publish(topic('a/b'), 'both', 1)
  await publisher.publish(topic('a/c'), 'marker', 1)
  const found = []
  for (let message; (message = await subscriber.take()).payload !== 'marker';) {
    found.push(message.properties.subscriptionIdentifier)
  }
  assert.deepEqual(found.flat().sort((a, b) => a - b), [1, 268435455])
})

scenario([5], 'aliases', async ({ peer, topic }) => {
  // MQTT.js gives aliases by itself, and understands those of the broker.
  const subscriber = await peer('subscriber', { more: { properties: { topicAliasMaximum: 2 } } })
  const publisher = await peer('publisher', { more: { autoAssignTopicAlias: true, autoUseTopicAlias: true } })
  await subscriber.subscribe(topic('#'), 1)
  const names = ['one', 'two', 'one', 'two', 'three', 'one', 'three']
  for (const [number, name] of names.entries()) await publisher.publish(topic(name), `${number}`, number % 3)
  for (const [number, name] of names.entries()) assert.equal((await subscriber.expect(`${number}`))[0].topic, topic(name))
})

scenario([5], 'will_delay', async ({ peer, topic }) => {
  const watcher = await peer('watcher')
  await watcher.subscribe(topic('#'), 1)
  const properties = { willDelayInterval: 1, userProperties: { why: 'dead' }, contentType: 'a/b' }
  const dying = (name) => peer(name, {
    expiry: 30, fresh: false, will: { topic: topic(name), payload: name, qos: 1, properties }
  })
  ;(await dying('back')).kill()
  const again = await dying('back')
  const killedAt = Date.now()
  ;(await dying('gone')).kill()
  const message = (await watcher.expect('gone'))[0]
  assert(Date.now() - killedAt >= 990, 'the delay has not passed')
  assert.deepEqual([pairs(message.properties), message.properties.contentType], [{ why: 'dead' }, 'a/b'])
  await again.leave()
})

async function main () {
  const way = JSON.parse(process.argv[2])
  let failed = 0
  const names = process.argv.slice(3)
  for (const name of names.length ? names : Object.keys(scenarios)) {
    const { act, version } = scenarios[name]
    const prefix = `mqttjs-${process.pid}/${name}`
    try {
      await act({
        way,
        version,
        peer: (other, more) => Peer.connect(way, `${prefix}/${other}`, version, more),
        topic: (rest) => `${prefix}/${rest}`
      })
      console.log(`ok ${name}`)
    } catch (error) {
      failed += 1
      console.log(`FAILED ${name}: ${error.message}`)
      console.error(error)
    }
    await Peer.end()
  }
  process.exit(failed ? 1 : 0)
}

main()
