package main

// Names of subjects.
const (
	rawPut     = "floor: synced Pebble put"
	rawLog     = "floor: log with fdatasync"
	rawHTTP    = "floor: net/http"
	rawHTTPPut = "floor: net/http and a synced put"

	bolt          = "peer: bbolt"
	always        = "peer: JetStream sync: always"
	alwaysIDs     = "peer: JetStream sync: always, ids"
	lazily        = "peer: JetStream default"
	lazilyIDs     = "peer: JetStream default, ids"
	alwaysThrough = "peer: JetStream sync: always, ids, consumed"
	lazilyThrough = "peer: JetStream default, ids, consumed"

	keyAlone      = "key, one message a group"
	keyBatch      = "key, batches of 100 of 100 groups"
	sequenceAlone = "sequence, one message a group"
	sequenceBatch = "sequence, batches of 512 of one group"

	chunkPut          = "floor: synced Pebble put of a hundred entries"
	sequenceOne       = "sequence, batches of 100 of one caller"
	sequenceOneLogged = "sequence, batches of 100 of one caller, with a log"
	sequenceHundred   = "sequence, batches of 100 of one group"
	sequenceLogged    = "sequence, batches of 100 of one group, with a log"
	sequenceShuffled  = "sequence, batches of 100 of one group, windows of 1,000 shuffled"
	singleOrdered     = "sequence, one message at a time of each group"
	singleShuffled    = "sequence, one message at a time of each group, windows of 1,000 shuffled"
	keyHundred        = "key, batches of 100 of one group"
	keyLogged         = "key, batches of 100 of one group, with a log"

	accepted      = "HTTP 202, processing paused"
	toFile        = "HTTP to file"
	toFileQueued  = "HTTP to file, through the queue"
	toFileMany    = "HTTP to file, 256 connections"
	grouped       = "HTTP to file, 6,400 groups"
	groupedQueued = "HTTP to file, 6,400 groups, through the queue"
	toFileBatch   = "HTTP to file, batches of 100"
)

// engineSubjects are the engine beside what it is built on: 256 callers with a message each, 16
// with batches. A message of a floor or a peer has 300 bytes.
func engineSubjects() []subject {
	return []subject{
		{rawPut, openPut},
		{rawLog, openLog},
		{bolt, openBolt},
		{always, openJetStream(true, false, false, recordBytes)},
		{alwaysIDs, openJetStream(true, true, false, recordBytes)},
		{lazily, openJetStream(false, false, false, recordBytes)},
		{lazilyIDs, openJetStream(false, true, false, recordBytes)},
		{keyAlone, openEngine(callers, 1, keyed)},
		{keyBatch, openEngine(batchCallers, 100, keyed)},
		{sequenceAlone, openEngine(callers, 1, fresh)},
		{sequenceBatch, openEngine(batchCallers, 512, numbered)},
	}
}

// logSubjects are the engine with a log of each group and without one, with 16 callers or a single
// one.
func logSubjects() []subject {
	return []subject{
		{chunkPut, openPutChunk},
		{sequenceOne, openEngine(1, 100, hundred("sequence"))},
		{sequenceOneLogged, openEngine(1, 100, hundred("sequence-logged"))},
		{sequenceHundred, openEngine(batchCallers, 100, hundred("sequence"))},
		{sequenceLogged, openEngine(batchCallers, 100, hundred("sequence-logged"))},
		{keyHundred, openEngine(batchCallers, 100, hundred("key"))},
		{keyLogged, openEngine(batchCallers, 100, hundred("key-logged"))},
	}
}

// orderSubjects are numbered messages in their order, and in another one.
func orderSubjects() []subject {
	return []subject{
		{singleOrdered, openEngine(callers, 1, hundred("sequence"))},
		{singleShuffled, openEngine(callers, 1, shuffled(hundred("sequence"), 1000))},
		{sequenceHundred, openEngine(batchCallers, 100, hundred("sequence"))},
		{sequenceShuffled, openEngine(batchCallers, 100, shuffled(hundred("sequence"), 1000))},
	}
}

// httpSubjects are the embedded system from an HTTP request to a line in a file, with bodies of
// 1 KB.
func httpSubjects() []subject {
	return []subject{
		{rawHTTP, openBare(false)},
		{rawHTTPPut, openBare(true)},
		{alwaysThrough, openJetStream(true, true, true, bodyBytes)},
		{lazilyThrough, openJetStream(false, true, true, bodyBytes)},
		{accepted, openServer(true, false, client{Connections: connections})},
		{toFile, openServer(false, false, client{Connections: connections})},
		{toFileQueued, openServer(false, true, client{Connections: connections})},
		{toFileMany, openServer(false, false, client{Connections: callers})},
		{grouped, openServer(false, false, client{Connections: connections, Groups: 100})},
		{groupedQueued, openServer(false, true, client{Connections: connections, Groups: 100})},
		{toFileBatch, openServer(false, false, client{Connections: 16, Batch: 100})},
	}
}
