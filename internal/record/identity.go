package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// GroupName is the group whose state and order the message belongs to: the named one, else the source of a numbered message, else its own id.
func (m *Message) GroupName() string {
	switch {
	case m.Group != "":
		return m.Group
	case m.Source != "":
		return m.Source
	default:
		return m.ID
	}
}

// GroupKey names the message's group record.
func (m *Message) GroupKey() GroupKey { return GroupKey{Stream: m.Stream, Group: m.GroupName()} }

// Identity is the id within the stream: the sender's, or source/epoch/sequence for a numbered message without one.
func (m *Message) Identity() string {
	if m.ID != "" || m.Source == "" {
		return m.ID
	}
	return m.Number()
}

// Number is the identity of a numbered message: what its sender counts, whatever id it gave besides.
func (m *Message) Number() string {
	return m.Source + "/" + strconv.FormatUint(m.Epoch, 10) + "/" + strconv.FormatUint(m.Sequence, 10)
}

// ParseNumber reads a [Message.Number]: source/epoch/sequence.
func ParseNumber(id string) (source string, epoch, sequence uint64, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) < 3 {
		return "", 0, 0, false
	}
	last := len(parts) - 1
	epoch, err1 := strconv.ParseUint(parts[last-1], 10, 64)
	sequence, err2 := strconv.ParseUint(parts[last], 10, 64)
	return strings.Join(parts[:last-1], "/"), epoch, sequence, err1 == nil && err2 == nil
}

// SourceKey is the name of the message's source within the group record: scoped by principal, so that nobody can number for somebody else.
func (m *Message) SourceKey() string { return sourceKey(m.Principal, m.Source) }

func sourceKey(principal, source string) string {
	if principal == "" {
		return source
	}
	return principal + "\x1f" + source // validated names hold no control characters
}

// PlainSource takes the principal off a [Message.SourceKey].
func PlainSource(key string) string { return key[strings.LastIndex(key, "\x1f")+1:] }

// A Fingerprint is the SHA-256 of what a sender meant by a message.
type Fingerprint [sha256.Size]byte

// Fingerprint covers the route of a one-time request, the group and the body. Headers are left out: proxies and tracers change them between tries.
func (m *Message) Fingerprint() Fingerprint {
	h := sha256.New()
	var size [8]byte
	for _, part := range []string{m.Route, m.GroupName()} {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	h.Write(m.Body)
	var f Fingerprint
	h.Sum(f[:0])
	return f
}

// A GroupKey names a group of a stream: the unit of state, order and concurrency.
type GroupKey struct{ Stream, Group string }

// Path gives stream/group, with which the identities of the group's effects begin. Not for errors and logs: see String.
func (k GroupKey) Path() string { return k.Stream + "/" + k.Group }

// String gives the stream and the beginning of a hash of the group, such as orders#3f2a9c, for errors and logs: by default a group is named by its message's id, and that is the
// sender's key. It is no identity: groups may share it.
func (k GroupKey) String() string {
	sum := sha256.Sum256([]byte(k.Group))
	return k.Stream + "#" + hex.EncodeToString(sum[:3])
}

// A TokenKey is the scoped identity of a message, hashed: no raw key is stored where listings could show it.
type TokenKey [sha256.Size]byte

// String gives the key in hexadecimal.
func (k TokenKey) String() string { return hex.EncodeToString(k[:]) }

// NewTokenKey hashes (principal, stream, id), see [TokenText].
func NewTokenKey(principal, stream, id string) TokenKey {
	return TokenKey(sha256.Sum256(appendTokenText(make([]byte, 0, 256), principal, stream, id)))
}

// NewNumberKey is the key of a [Message.Number]. Numbers belong to a group: a source counts in each of its groups.
func NewNumberKey(principal string, group GroupKey, number string) TokenKey {
	return NewTokenKey(principal, group.Stream, group.Group+"\x1f"+number)
}

// TokenText is the readable text that a token key is the hash of.
func TokenText(principal, stream, id string) string {
	return string(appendTokenText(nil, principal, stream, id))
}

func appendTokenText(b []byte, principal, stream, id string) []byte {
	b = strconv.AppendQuote(append(b, "once token principal="...), principal)
	b = strconv.AppendQuote(append(b, " stream="...), stream)
	return strconv.AppendQuote(append(b, " id="...), id)
}
