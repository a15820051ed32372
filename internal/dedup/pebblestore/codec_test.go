package pebblestore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

var update = flag.Bool("update", false, "write testdata anew")

// A kind is one kind of record, for tests of all kinds.
type kind struct {
	name   string
	key    []byte
	record any
	encode func(record any) []byte
	decode func(r checked) (any, error)
}

// read decodes a stored value.
func (k kind) read(key, value []byte) (any, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	return k.decode(r)
}

func kinds() []kind {
	group, token, held, chunk := exampleGroup(), exampleToken(), exampleHeld(), exampleChunk()
	groupK, tokenK, heldK := groupKey(group.Key), tokenKey(token.Key), heldKey(keyOf(&held.Message))
	chunkK := chunkKey(chunk.Group, chunk.Incarnation, chunk.Last)
	logged := group
	logged.Log = record.Log{Last: 345, Time: clock.HybridAt(group.Expires) + 1, Ended: true, Until: group.Expires}
	encode := func(key []byte, write func(e *encoding.Encoder)) []byte {
		e := &encoding.Encoder{}
		write(e)
		return pebbledb.Seal(key, e.B)
	}
	encodeAGroup := func(x any) []byte {
		g := x.(record.Group)
		return encode(groupK, func(e *encoding.Encoder) { encodeGroup(e, &g) })
	}
	decodeAGroup := func(r checked) (any, error) { return decodeGroup(r, group.Key) }
	return []kind{
		{name: "group", key: groupK, record: group, encode: encodeAGroup, decode: decodeAGroup},
		{name: "group with a log", key: groupK, record: logged, encode: encodeAGroup, decode: decodeAGroup},
		{
			name: "chunk", key: chunkK, record: chunk,
			encode: func(x any) []byte {
				c := x.(record.Chunk)
				return encode(chunkK, func(e *encoding.Encoder) { encodeChunk(e, &c) })
			},
			decode: func(r checked) (any, error) { return decodeChunk(r, chunk.Group, chunkK) },
		},
		{
			name: "token", key: tokenK, record: token,
			encode: func(x any) []byte {
				t := x.(record.Token)
				return encode(tokenK, func(e *encoding.Encoder) { encodeToken(e, &t) })
			},
			decode: func(r checked) (any, error) { return decodeToken(r, token.Key) },
		},
		{
			name: "held", key: heldK, record: held,
			encode: func(x any) []byte {
				h := x.(record.Held)
				return encode(heldK, func(e *encoding.Encoder) { encodeHeld(e, &h) })
			},
			decode: func(r checked) (any, error) { return decodeHeld(r) },
		},
	}
}

func exampleGroup() record.Group {
	at := time.UnixMicro(1767225600_000001).UTC()
	return record.Group{
		Key: record.GroupKey{Stream: "orders", Group: "customer-1"}, Incarnation: 1767225600000, Version: 3, State: []byte("state"), Last: 7, Expires: at,
		Pending: []record.Pending{{
			Number: 6, Identity: "id", Principal: "tenant", Token: record.TokenKey{1}, Fingerprint: record.Fingerprint{2}, Attempt: "attempt",
			Effects: []record.Effect{{
				To: []string{"ledger"}, Group: "g", ID: "id", Source: "s", Epoch: 1, Sequence: 2, ContentType: "text/plain",
				Headers: map[string]string{"a": "1", "b": "2"}, Body: []byte("body"), Chain: map[string]uint64{"next": 9},
			}, {Blob: &record.Blob{Key: "k", Staged: "staged"}}},
			Sent:  []record.Sent{{Effect: 0, To: "ledger"}},
			Reply: &record.Reply{Status: 201, Header: map[string][]string{"Etag": {"x"}}, Body: []byte("reply")},
			Marks: true, Retention: time.Hour,
		}},
		Sources: map[string]record.Source{"s": {
			Epoch: 1, Next: 3, Held: record.Ranges{{First: 5, Last: 6}}, Skipped: record.Ranges{{First: 2, Last: 2}}, HeldBytes: 10, GapSince: at,
		}},
		Chained: map[string]uint64{"next/g": 9},
	}
}

func exampleChunk() record.Chunk {
	return record.Chunk{
		Group: record.GroupKey{Stream: "orders", Group: "customer-1"}, Incarnation: 1767225600000, First: 340, Last: 345,
		Expires: time.UnixMicro(1767225600_000001).UTC(), Data: []byte("entries"),
	}
}

func exampleToken() record.Token {
	at := time.UnixMicro(1767225600_000001).UTC()
	request := exampleHeld().Message
	return record.Token{
		Key: record.TokenKey{1, 2, 3}, State: record.Leased, Fingerprint: record.Fingerprint{4}, Stream: "orders", Group: "customer-1",
		Owner: "attempt", Epoch: 2, Lease: at, Reply: &record.Reply{Status: 204}, Reason: record.ReasonGap, Request: &request, Expires: at,
	}
}

func exampleHeld() record.Held {
	at := time.UnixMicro(1767225600_000001).UTC()
	return record.Held{At: at, Message: record.Message{
		Principal: "tenant", Stream: "orders", ID: "id", Group: "customer-1", Source: "s", Epoch: 1, Sequence: 5, DependsOn: map[string]uint64{"t": 4},
		ContentType: "text/plain", Headers: map[string]string{"a": "1"}, Body: []byte("body"), Route: "POST /x", Accepted: at,
	}}
}

func TestStoredRecordsOfThisFormatStayReadable(t *testing.T) {
	for _, k := range kinds() {
		file := filepath.Join("testdata", "format-1", strings.ReplaceAll(k.name, " ", "-")+".hex")
		if *update {
			if err := os.WriteFile(file, []byte(hex.EncodeToString(k.encode(k.record))+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		value, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.read(k.key, value)
		if diff := cmp.Diff(k.record, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", k.name, err, diff)
		}
		if !bytes.Equal(k.encode(k.record), value) {
			t.Errorf("%s: is encoded in another way now; that needs another format number", k.name)
		}
	}
}

// A record that is kept for ever says 100 years, because versions that take a missing retention for
// an unknown one would let it expire. Earlier ones wrote none.
func TestARecordThatIsKeptForEverSaysALongTime(t *testing.T) {
	k := kinds()[0]
	text, err := os.ReadFile(filepath.Join("testdata", "format-1", "group-without-retention.hex"))
	if err != nil {
		t.Fatal(err)
	}
	value, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.read(k.key, value)
	if diff := cmp.Diff(k.record, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	century := exampleGroup()
	century.Retention = 100 * 365 * 24 * time.Hour
	if !bytes.Equal(k.encode(k.record), k.encode(century)) {
		t.Error("for ever is not written as 100 years")
	}
}

func TestARecordWithAnyDamagedByteIsCorrupt(t *testing.T) {
	for _, k := range kinds() {
		value := k.encode(k.record)
		for i := range value {
			if _, err := k.read(k.key, value[:i]); !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("%s cut to %d bytes: got %v, want %v", k.name, i, err, record.ErrCorrupt)
			}
			damaged := bytes.Clone(value)
			damaged[i] ^= 1 << (i % 8)
			if _, err := k.read(k.key, damaged); !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("%s with a bit of byte %d flipped: got %v, want %v", k.name, i, err, record.ErrCorrupt)
			}
		}
	}
}

func TestARecordUnderAnotherKeyIsCorrupt(t *testing.T) {
	for _, k := range kinds() {
		if _, err := k.read(append(bytes.Clone(k.key), 'x'), k.encode(k.record)); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", k.name, err, record.ErrCorrupt)
		}
	}
}

func TestARecordOfANewerFormatIsNamedAsSuch(t *testing.T) {
	for _, k := range kinds() {
		value := k.encode(k.record)
		value[0] = format + 1
		_, err := k.read(k.key, value)
		if !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), "format 2") {
			t.Errorf("%s: got %v", k.name, err)
		}
	}
}

func TestACBORLibraryCanReadTheRecords(t *testing.T) {
	strict, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden}.DecMode()
	if err != nil {
		t.Fatal(err)
	}
	deterministic, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		value := k.encode(k.record)
		body := value[headerSize : len(value)-4]
		if _, ok := k.record.(record.Group); ok {
			body = body[identitySize:]
		}
		var any map[uint64]any
		if err := strict.Unmarshal(body, &any); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		if again, err := deterministic.Marshal(any); err != nil || !bytes.Equal(again, body) {
			t.Errorf("%s: a library encodes it as %x, %v; not as %x", k.name, again, err, body)
		}
	}
}

// sealed returns a record with the body and a valid checksum.
func sealed(key, body []byte) []byte {
	value := append(make([]byte, headerSize), body...)
	value[0] = format
	return pebbledb.Seal(key, value)
}

func TestAnUnknownFieldIsCorruption(t *testing.T) {
	body, err := cbor.Marshal(map[int]any{1: 2, 77: "from the future"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		if _, ok := k.record.(record.Group); ok {
			body = append(make([]byte, identitySize), body...)
		}
		if _, err := k.read(k.key, sealed(k.key, body)); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", k.name, err, record.ErrCorrupt)
		}
		body = bytes.TrimLeft(body, "\x00")
	}
}

// fuzz decodes bodies with a valid checksum: they are corrupt, or equal the decoded form of their
// encoding.
func fuzz(f *testing.F, name string) {
	var k kind
	for _, x := range kinds() {
		if x.name == name {
			k = x
		}
	}
	value := k.encode(k.record)
	f.Add(value[headerSize : len(value)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		first, err := k.read(k.key, sealed(k.key, body))
		if err != nil {
			if !errors.Is(err, record.ErrCorrupt) {
				t.Fatalf("got %v, want %v", err, record.ErrCorrupt)
			}
			return
		}
		again, err := k.read(k.key, k.encode(first))
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("read, written and read again (-first +again):\n%s", diff)
		}
	})
}

func FuzzGroup(f *testing.F) { fuzz(f, "group") }
func FuzzToken(f *testing.F) { fuzz(f, "token") }
func FuzzHeld(f *testing.F)  { fuzz(f, "held") }
func FuzzChunk(f *testing.F) { fuzz(f, "chunk") }

// FuzzValue reads any bytes as a stored value.
func FuzzValue(f *testing.F) {
	for _, k := range kinds() {
		f.Add(k.encode(k.record))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, k := range kinds() {
			if _, err := k.read(k.key, value); err != nil && !errors.Is(err, record.ErrCorrupt) {
				t.Fatalf("%s: got %v, want %v", k.name, err, record.ErrCorrupt)
			}
		}
	})
}
