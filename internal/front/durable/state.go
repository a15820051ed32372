package durable

import (
	"encoding/json"
	"mime"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// jsonType is the type of streams whose bodies are lists of values.
const jsonType = "application/json"

// maxProducers bounds the producers of one stream: each takes room in the group record.
const maxProducers = 1000

// state is the state of a group that is written by the protocol.
type state struct {
	Type      string              `json:"type"`
	TTL       int64               `json:"ttl,omitempty"` // seconds since the last read or write
	Expires   *time.Time          `json:"expires,omitempty"`
	ExpiresAt string              `json:"expires_at,omitempty"` // as it was sent
	Used      time.Time           `json:"used"`                 // the last write, or a read some time after it
	Seq       string              `json:"seq,omitempty"`        // the last Stream-Seq
	Producers map[string]producer `json:"producers,omitempty"`
}

// producer is the last append of a producer.
type producer struct {
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"`
}

// parseState returns the state of a group, and whether the group is a stream of the protocol. A log
// that other requests have written is one of JSON values.
func parseState(text []byte, log record.Log) (st state, exists bool, err error) {
	if len(text) == 0 {
		return state{Type: jsonType}, log.Last > 0, nil
	}
	if err := json.Unmarshal(text, &st); err != nil || st.Type == "" {
		// the state of a handler: the log can be read
		return state{Type: jsonType}, log.Last > 0, err
	}
	return st, true, nil
}

// OwnsState reports whether a group's state is that of a stream of the protocol, and not one that a
// handler has left.
func OwnsState(text []byte) bool {
	var st state
	return json.Unmarshal(text, &st) == nil && st.Type != "" && !st.Used.IsZero()
}

func (st *state) encode() []byte {
	text, _ := json.Marshal(st) // strings, numbers and times
	return text
}

// expired reports whether the stream is gone, if it was last read at a time.
func (st *state) expired(read, now time.Time) bool {
	if st.Expires != nil && !st.Expires.After(now) {
		return true
	}
	used := st.Used
	if read.After(used) {
		used = read
	}
	return st.TTL > 0 && !used.Add(time.Duration(st.TTL)*time.Second).After(now)
}

// sameType reports whether two content types have the same media type and parameters.
func sameType(a, b string) bool {
	mediaA, paramsA, err1 := mime.ParseMediaType(a)
	mediaB, paramsB, err2 := mime.ParseMediaType(b)
	if err1 != nil || err2 != nil {
		return strings.EqualFold(a, b)
	}
	if len(paramsA) > 0 && len(paramsB) > 0 && !strings.EqualFold(paramsA["charset"], paramsB["charset"]) {
		return false
	}
	return mediaA == mediaB
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == jsonType
}

// isText reports whether events carry the content as it is.
func isText(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == jsonType || strings.HasPrefix(media, "text/"))
}
