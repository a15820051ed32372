package dynamostore

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

// The stored format, version 1. A change of the meaning of an attribute needs a new format number;
// an item of an unknown format is corrupt. A group with timers has the format 2: a version of this
// program that knows no timers would drop them. Binary attributes are encoded by package encoding,
// with its rules for fields.
//
// Table of groups, one item per group, with the sort key STATE:
//
//	pk, sk    S  stream#group, STATE
//	f         N  format
//	i, v      N  incarnation and version, which the condition of a commit compares
//	a         S  the attempt that committed last, by which a store recognises its own commit
//	s         B  the handler's state; absent if it is empty; S is the name of its claim
//	n         N  last number
//	p         M  pending entries: number -> B, see entry.go, or S as above; always there, so that
//	             an update can set one entry
//	c         B  the common part of the entries, see common.go; absent if the commit left no entries
//	sent      M  sent effects of pending entries: number -> B, a list of marks; of a kept entry,
//	             one mark with the time until which it counts, see doneMark; always there
//	src       B  map of sources; absent if there are none
//	chain     B  map of numbers by target; absent if there are none
//	timers    B  map of timers by name; absent if there are none
//	until     N  the earliest expiry that the timers allow, in milliseconds of Unix time; absent if
//	             there are none
//	log       B  the end of its log; absent if it has no entries
//	keep      N  how long it outlives its last message, in seconds; 100 years or absent is for ever
//	held      S  present while messages are held: the shard in the index of waiting groups
//	x         N  expiry in milliseconds of Unix time, which conditions compare; absent is never
//	expires   N  the same in seconds, rounded up: the table's time-to-live attribute, which only
//	             frees storage
//
// In the same table one item per held message, with the sort key HELD#source#epoch#sequence, both
// numbers in twenty digits:
//
//	pk, sk, f
//	m         B  a held message
//
// In the same table one item per chunk of a log, with the sort key LOG#incarnation#number, where
// the number is that of the last entry, both in twenty digits:
//
//	pk, sk, f, x, expires
//	first     N  the number of the first entry
//	data      B  the entries
//
// Table of tokens, one item per token:
//
//	pk        S  the key's hash in hexadecimal
//	f         N  format
//	st        N  state
//	owner, epoch S or B, N: the fence; the condition of a swap compares it and st
//	fp        B  fingerprint
//	stream, grp  S or B: the group of the message
//	lease     N  milliseconds
//	reply     B  a reply of at most 1 KB
//	rkey      S  the key of the item with a larger reply
//	why       S or B: reason of the last refusal
//	req       B  a message
//	x, expires   as above
//
// In the same table one item per larger reply, with the key hash#name, where the name is a hash of
// the token's owner and epoch and of the reply:
//
//	pk, f, reply, x, expires
const (
	format = 1
	// formatTimer is that of a group with timers.
	formatTimer = 2

	attrPK          = "pk"
	attrSK          = "sk"
	attrFormat      = "f"
	attrIncarnation = "i"
	attrVersion     = "v"
	attrAttempt     = "a"
	attrState       = "s"
	attrLast        = "n"
	attrPending     = "p"
	attrSent        = "sent"
	attrCommon      = "c"
	attrSources     = "src"
	attrChained     = "chain"
	attrTimers      = "timers"
	attrUntil       = "until"
	attrLog         = "log"
	attrRetention   = "keep"
	attrHeld        = "held"
	attrExpires     = "x"
	attrTTL         = "expires"

	attrMessage = "m"

	attrFirst = "first"
	attrData  = "data"

	attrTokenState  = "st"
	attrOwner       = "owner"
	attrEpoch       = "epoch"
	attrFingerprint = "fp"
	attrStream      = "stream"
	attrGroup       = "grp"
	attrLease       = "lease"
	attrReply       = "reply"
	attrReplyKey    = "rkey"
	attrReason      = "why"
	attrDetail      = "detail"
	attrRequest     = "req"
)

const stateKey = "STATE"

// replyMark separates a token's key and the name of its reply.
const replyMark = "#"

// waitingIndex is the index of the groups that hold messages: partition key held, sort key pk, keys
// only. It is sparse: a group without held messages is not in it, and costs nothing there.
const waitingIndex = "waiting"

// waitingShards spread the waiting groups over partitions, each of which is limited to 1,000 writes
// a second.
const waitingShards = 8

// shard returns the shard of a group in the index.
func shard(k record.GroupKey) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(partition(k)))
	return strconv.FormatUint(uint64(h.Sum32()%waitingShards), 10)
}

// item is a stored item.
type item = map[string]types.AttributeValue

func partition(k record.GroupKey) string { return k.Stream + "#" + k.Group }

// parsePartition parses a partition key. Stream names do not contain the separator.
func parsePartition(pk string) (record.GroupKey, bool) {
	stream, group, ok := strings.Cut(pk, "#")
	return record.GroupKey{Stream: stream, Group: group}, ok
}

func groupItemKey(k record.GroupKey) item {
	return item{attrPK: str(partition(k)), attrSK: str(stateKey)}
}

func heldItemKey(k record.HeldKey) item {
	return item{attrPK: str(partition(k.Group)), attrSK: str(heldSortKey(k))}
}

// heldSortKey sorts by number within a source and epoch. A separator within the source's name is
// replaced by a control character, which no name contains. Without that, the numbers of a source
// named "a#1#2" would sort among those of "a".
func heldSortKey(k record.HeldKey) string {
	return fmt.Sprintf("HELD#%s#%020d#%020d", strings.ReplaceAll(k.Source, "#", "\x1e"), k.Epoch, k.Sequence)
}

// chunkSortKey sorts by number within an incarnation.
func chunkSortKey(incarnation, last uint64) string {
	return fmt.Sprintf("LOG#%020d#%020d", incarnation, last)
}

func parseChunkSortKey(sk string) (incarnation, last uint64, ok bool) {
	parts := strings.Split(sk, "#")
	if len(parts) != 3 {
		return 0, 0, false
	}
	incarnation, _ = strconv.ParseUint(parts[1], 10, 64)
	last, _ = strconv.ParseUint(parts[2], 10, 64)
	return incarnation, last, chunkSortKey(incarnation, last) == sk
}

func tokenItemKey(k record.TokenKey) item { return item{attrPK: str(k.String())} }

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func binary(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

func number(n uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(n, 10)}
}

func integer(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
