package pebblestore

import (
	"time"

	"github.com/effectively-once/once/internal/dedup"
)

// The records as they are stored. Their field numbers are the format: names may change, numbers may not, and a number is never used again. What is in
// the key or in front of the body is not repeated.

type groupRecord struct {
	State   []byte                  `cbor:"1,keyasint,omitempty"`
	Pending []pendingRecord         `cbor:"2,keyasint,omitempty"`
	Last    uint64                  `cbor:"3,keyasint,omitempty"`
	Sources map[string]sourceRecord `cbor:"4,keyasint,omitempty"`
	Chained map[string]uint64       `cbor:"5,keyasint,omitempty"`
}

type sourceRecord struct {
	Epoch     uint64        `cbor:"1,keyasint,omitempty"`
	Next      uint64        `cbor:"2,keyasint,omitempty"`
	Held      []rangeRecord `cbor:"3,keyasint,omitempty"`
	Skipped   []rangeRecord `cbor:"4,keyasint,omitempty"`
	HeldBytes int           `cbor:"5,keyasint,omitempty"`
	GapSince  int64         `cbor:"6,keyasint,omitempty"`
}

type rangeRecord struct {
	_     struct{} `cbor:",toarray"`
	First uint64
	Last  uint64
}

type pendingRecord struct {
	Number      uint64         `cbor:"1,keyasint,omitempty"`
	Identity    string         `cbor:"2,keyasint,omitempty"`
	Principal   string         `cbor:"3,keyasint,omitempty"`
	Token       []byte         `cbor:"4,keyasint,omitempty"`
	Fingerprint []byte         `cbor:"5,keyasint,omitempty"`
	Attempt     string         `cbor:"6,keyasint,omitempty"`
	Effects     []effectRecord `cbor:"7,keyasint,omitempty"`
	Sent        []sentRecord   `cbor:"8,keyasint,omitempty"`
	Reply       *replyRecord   `cbor:"9,keyasint,omitempty"`
	Marks       bool           `cbor:"10,keyasint,omitempty"`
	Retention   time.Duration  `cbor:"11,keyasint,omitempty"`
}

type sentRecord struct {
	_      struct{} `cbor:",toarray"`
	Effect int
	To     string
}

type effectRecord struct {
	To          []string          `cbor:"1,keyasint,omitempty"`
	Group       string            `cbor:"2,keyasint,omitempty"`
	ID          string            `cbor:"3,keyasint,omitempty"`
	Source      string            `cbor:"4,keyasint,omitempty"`
	Epoch       uint64            `cbor:"5,keyasint,omitempty"`
	Sequence    uint64            `cbor:"6,keyasint,omitempty"`
	ContentType string            `cbor:"7,keyasint,omitempty"`
	Headers     map[string]string `cbor:"8,keyasint,omitempty"`
	Body        []byte            `cbor:"9,keyasint,omitempty"`
	Chain       map[string]uint64 `cbor:"10,keyasint,omitempty"`
	Blob        *blobRecord       `cbor:"11,keyasint,omitempty"`
}

type blobRecord struct {
	_      struct{} `cbor:",toarray"`
	Key    string
	Staged string
}

type replyRecord struct {
	Status int                 `cbor:"1,keyasint,omitempty"`
	Header map[string][]string `cbor:"2,keyasint,omitempty"`
	Body   []byte              `cbor:"3,keyasint,omitempty"`
}

type heldRecord struct {
	Message messageRecord `cbor:"1,keyasint"`
	At      int64         `cbor:"2,keyasint,omitempty"`
}

type messageRecord struct {
	Principal   string            `cbor:"1,keyasint,omitempty"`
	Stream      string            `cbor:"2,keyasint,omitempty"`
	ID          string            `cbor:"3,keyasint,omitempty"`
	Group       string            `cbor:"4,keyasint,omitempty"`
	Source      string            `cbor:"5,keyasint,omitempty"`
	Epoch       uint64            `cbor:"6,keyasint,omitempty"`
	Sequence    uint64            `cbor:"7,keyasint,omitempty"`
	DependsOn   map[string]uint64 `cbor:"8,keyasint,omitempty"`
	ContentType string            `cbor:"9,keyasint,omitempty"`
	Headers     map[string]string `cbor:"10,keyasint,omitempty"`
	Body        []byte            `cbor:"11,keyasint,omitempty"`
	Route       string            `cbor:"12,keyasint,omitempty"`
	Accepted    int64             `cbor:"13,keyasint,omitempty"`
	Retention   time.Duration     `cbor:"14,keyasint,omitempty"`
}

type tokenRecord struct {
	State       uint8          `cbor:"1,keyasint,omitempty"`
	Fingerprint []byte         `cbor:"2,keyasint,omitempty"`
	Stream      string         `cbor:"3,keyasint,omitempty"`
	Group       string         `cbor:"4,keyasint,omitempty"`
	Owner       string         `cbor:"5,keyasint,omitempty"`
	Epoch       uint64         `cbor:"6,keyasint,omitempty"`
	Lease       int64          `cbor:"7,keyasint,omitempty"`
	Reply       *replyRecord   `cbor:"8,keyasint,omitempty"`
	Reason      dedup.Reason   `cbor:"9,keyasint,omitempty"`
	Request     *messageRecord `cbor:"10,keyasint,omitempty"`
}
