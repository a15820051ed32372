package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"time"
)

// lease is how long a consumer may be silent until its messages go to another one.
const lease = 2 * time.Second

// consumers is the number of consumer processes of a trial.
const consumers = 6

// A peer is a server with messages, and the command of its consumers.
type peer interface {
	// open starts the server, with a folder of its own.
	open(ctx context.Context, p place) error
	// send puts messages into the server. It repeats until the server has acknowledged them.
	send(ctx context.Context, ids []string) error
	// command returns the arguments of a consumer process. A number names its place, another one
	// that it takes the place of a stopped consumer.
	command(place, start int, restarted bool) []string
	// crash kills the server and starts it again. It returns false if that is not possible.
	crash(ctx context.Context) (bool, error)
	// rows opens the table.
	rows() (*sql.DB, error)
	close()
}

// A place is the folder and the name of a trial.
type place struct {
	self string // this program
	dir  string
	name string // unique
}

func (p place) file() string { return filepath.Join(p.dir, "rows.db") }

// Names of the peers.
const (
	nameOnce        = "once"
	nameAfter       = "cursor-after"
	nameJetStream   = "jetstream"
	nameWatermill   = "watermill-sql"
	nameWatermillTx = "watermill-sql-tx"
	nameSQS         = "sqs"
)

func names() []string {
	return []string{nameOnce, nameAfter, nameJetStream, nameWatermill, nameWatermillTx, nameSQS}
}

func describe(name string) string {
	return map[string]string{
		nameOnce: "`once`: session", nameAfter: "`once`: session", nameJetStream: "JetStream: pull consumer, double acknowledgement",
		nameWatermill: "Watermill: SQL subscriber", nameWatermillTx: "Watermill: SQL subscriber", nameSQS: "ElasticMQ, in place of SQS: visibility timeout",
	}[name]
}

// inTransaction reports whether a peer stores its position in the transaction of the rows. The
// others store the rows first, and then their position or an acknowledgement.
func inTransaction(name string) bool { return name == nameOnce || name == nameWatermillTx }

// order names one of the two orders.
func order(within bool) string {
	if within {
		return "position in the transaction of the rows"
	}
	return "rows first, then position or acknowledgement"
}

func newPeer(name string) peer {
	switch name {
	case nameOnce, nameAfter:
		return &oncePeer{consumer: name}
	case nameJetStream:
		return &natsPeer{}
	case nameWatermill, nameWatermillTx:
		return &watermillPeer{consumer: name}
	default:
		return &sqsPeer{}
	}
}
