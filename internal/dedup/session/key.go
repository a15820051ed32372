package session

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

// An ID names a session.
type ID struct {
	Stream string
	// Group is the group whose log the session reads, or empty for a session of the stream's pool.
	Group string
	Name  string
}

// escaper makes names fit between slashes.
var escaper = strings.NewReplacer("%", "%25", "/", "%2F") //nolint:gochecknoglobals // never changed

var unescaper = strings.NewReplacer("%2F", "/", "%25", "%") //nolint:gochecknoglobals // never changed

// key returns the key of the session's record: stream/name, or stream/group/name. It is a part of
// the identities of the session's effects, so it has no control characters.
func (id ID) key() record.GroupKey {
	path := id.Stream
	if !id.pooled() {
		path += "/" + escaper.Replace(id.Group)
	}
	return record.GroupKey{Stream: record.SessionsStream, Group: path + "/" + escaper.Replace(id.Name)}
}

// Key returns the key of the session's record. Its path begins the identities of the effects.
func Key(id ID) record.GroupKey { return id.key() }

// ParseKey returns the session that a record belongs to.
func ParseKey(key record.GroupKey) (id ID, ok bool) {
	parts := strings.Split(key.Group, "/")
	for i, part := range parts {
		parts[i] = unescaper.Replace(part)
	}
	switch {
	case key.Stream != record.SessionsStream:
		return ID{}, false
	case len(parts) == 2:
		return ID{Stream: parts[0], Name: parts[1]}, true
	case len(parts) == 3:
		return ID{Stream: parts[0], Group: parts[1], Name: parts[2]}, true
	}
	return ID{}, false
}

func (id ID) pooled() bool { return id.Group == "" }

func poolKey(stream string) record.GroupKey {
	return record.GroupKey{Stream: record.PoolsStream, Group: stream}
}

func (id ID) logKey() record.GroupKey { return record.GroupKey{Stream: id.Stream, Group: id.Group} }

// Partition returns the group whose log is the partition with a number, counted from 0.
func Partition(stream string, number uint64) record.GroupKey {
	return record.GroupKey{Stream: stream, Group: strconv.FormatUint(number, 10)}
}

// maxName is the longest name of a session or holder, in bytes.
const maxName = 128

func (s *Sessions) validate(id ID) error {
	for _, f := range []struct {
		field, value string
		longest      int
	}{{"stream", id.Stream, maxName}, {"group", id.Group, record.MaxName}, {"session", id.Name, maxName}} {
		if len(f.value) > f.longest || f.field != "group" && f.value == "" {
			return &record.InvalidError{Field: f.field, Rule: fmt.Sprintf("must be 1 to %d bytes", f.longest)}
		}
		if strings.ContainsFunc(f.value, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
			return &record.InvalidError{Field: f.field, Rule: "must be UTF-8 text without control characters"}
		}
	}
	if _, ok := s.cfg.Pools[id.Stream]; !ok && id.pooled() {
		return ErrNoPool
	}
	return nil
}
