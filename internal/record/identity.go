package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"
)

// GroupName returns the group whose state and order the message belongs to. It is the partition
// that the message is placed in, or else the group that the sender named. If there is none, it is
// the source of a numbered message, or else the message's id.
func (m *Message) GroupName() string {
	switch {
	case m.Group != "":
		if partition, _, placed := m.inPartition(); placed {
			return PartitionName(partition)
		}
		return m.Group
	case m.Source != "":
		return m.Source
	default:
		return m.ID
	}
}

// GroupKey returns the key of the message's group record.
func (m *Message) GroupKey() GroupKey { return GroupKey{Stream: m.Stream, Group: m.GroupName()} }

// Identity returns the message's id within its stream: the sender's id, or source/epoch/sequence if
// a numbered message has none.
func (m *Message) Identity() string {
	if m.ID != "" || m.Source == "" {
		return m.ID
	}
	return m.Number()
}

// Number returns the identity of a numbered message, source/epoch/sequence, whether or not its
// sender also set an id.
func (m *Message) Number() string {
	return m.Source + "/" + strconv.FormatUint(m.Epoch, 10) + "/" + strconv.FormatUint(m.Sequence, 10)
}

// AppendNumber appends what [Message.Number] returns.
func AppendNumber(b []byte, source string, epoch, sequence uint64) []byte {
	b = append(append(b, source...), '/')
	b = append(strconv.AppendUint(b, epoch, 10), '/')
	return strconv.AppendUint(b, sequence, 10)
}

// ParseNumber parses a [Message.Number]: source/epoch/sequence.
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

// SourceKey returns the name of the message's source within the group record. It includes the
// principal, so that no caller can use the numbers of another principal's source.
func (m *Message) SourceKey() string { return sourceKey(m.Principal, m.Source) }

func sourceKey(principal, source string) string {
	if principal == "" {
		return source
	}
	return principal + "\x1f" + source // validated names hold no control characters
}

// PlainSource returns a [Message.SourceKey] without its principal.
func PlainSource(key string) string { return key[strings.LastIndex(key, "\x1f")+1:] }

// Fit returns a name that is short enough for a message, and different for different names: if a
// name is too long, or has the form of a shortened one, it is cut and extended by the hash of the
// whole.
func Fit(name string) string {
	const digits = 2 * sha256.Size
	tail := len(name) - digits - 1
	if len(name) <= MaxName && (tail < 0 || name[tail] != '~' || strings.Trim(name[tail+1:], "0123456789abcdef") != "") {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	cut := min(len(name), MaxName-digits-1)
	for cut > 0 && cut < len(name) && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "~" + hex.EncodeToString(hash[:])
}

// A Fingerprint is the SHA-256 of the content that a sender chose.
type Fingerprint [sha256.Size]byte

// Fingerprint hashes the route of a one-time request, the group, the body or in its place
// [Message.Content], and whether the message ends a log. Headers are left out because proxies and
// tracers change them between retries.
func (m *Message) Fingerprint() Fingerprint {
	h := sha256.New()
	group := m.GroupName()
	if m.Placed() {
		group = m.Group
	}
	head := make([]byte, 0, 128) // on the stack if the names are short
	first := uint64(len(m.Route))
	if m.End {
		first |= 1 << 63
	}
	content := m.Body
	if m.Content != [sha256.Size]byte{} { // is not the same content as a body of these bytes
		first |= 1 << 62
		content = m.Content[:]
	}
	head = binary.BigEndian.AppendUint64(head, first)
	head = append(head, m.Route...)
	head = binary.BigEndian.AppendUint64(head, uint64(len(group)))
	h.Write(append(head, group...))
	if m.Void { // is not the same content as an empty body
		h.Write([]byte{0})
	}
	h.Write(content)
	var f Fingerprint
	h.Sum(f[:0])
	return f
}

// A GroupKey names a group of a stream: the unit of state, order and concurrency.
type GroupKey struct{ Stream, Group string }

// Path returns stream/group, the prefix of the identities of the group's effects. Errors and logs
// use String instead.
func (k GroupKey) Path() string { return k.Stream + "/" + k.Group }

// String returns the stream and the beginning of a hash of the group, such as orders#3f2a9c, for
// errors and logs. The plain group must not be logged: by default it is the message's id, which is
// the sender's key. Several groups may share a String, so it is not an identity.
func (k GroupKey) String() string {
	sum := sha256.Sum256([]byte(k.Group))
	return k.Stream + "#" + hex.EncodeToString(sum[:3])
}

// A TokenKey is the scoped identity of a message, hashed, so that a listing of the store shows no
// raw key.
type TokenKey [sha256.Size]byte

// String returns the key in hexadecimal.
func (k TokenKey) String() string { return hex.EncodeToString(k[:]) }

// Short returns the first 12 hexadecimal digits of the key, for logs.
func (k TokenKey) Short() string { return hex.EncodeToString(k[:6]) }

// NewTokenKey returns the hash of a readable text that names principal, stream and id.
func NewTokenKey(principal, stream, id string) TokenKey {
	b := appendQuoted(append(make([]byte, 0, 256), "once token principal="...), principal)
	b = appendQuoted(append(b, " stream="...), stream)
	return TokenKey(sha256.Sum256(appendQuoted(append(b, " id="...), id)))
}

// NewNumberKey returns the key of a [Message.Number]. It includes the group, because a source
// counts separately in each of its groups.
func NewNumberKey(principal string, group GroupKey, number string) TokenKey {
	return NewTokenKey(principal, group.Stream, group.Group+"\x1f"+number)
}

// appendQuoted is [strconv.AppendQuote], which is slow, with a short cut for names of visible ASCII
// characters.
func appendQuoted(b []byte, s string) []byte {
	if !IsPlain(s) {
		return strconv.AppendQuote(b, s)
	}
	return append(append(append(b, '"'), s...), '"')
}
