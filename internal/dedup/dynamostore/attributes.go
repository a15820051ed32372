package dynamostore

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

// The stored format, version 1. Whatever changes the meaning of an attribute changes the format, and an item of a format that this program does not know is
// corrupt to it. What is in binary attributes is written by package stored, whose rules for fields hold here too.
//
// Table of groups, one item a group, of sort key STATE:
//
//	pk, sk    S  stream#group, STATE
//	f         N  format
//	i, v      N  incarnation and version: what a commit's condition is on
//	a         S  attempt that committed last: how a store knows its own commit
//	s         B  the handler's state; absent where it is empty; S where it is kept elsewhere, the name of the claim
//	n         N  last number
//	p         M  pending entries: number -> B, see entry.go, or S as above; always there, so that an update can set one entry
//	c         B  what entries have in common, see common.go; absent where there were none when it was committed
//	sent      M  what is sent of pending entries: number -> B, a list of marks; always there
//	src       B  map of sources; absent where there are none
//	chain     B  map of numbers by target; absent where there are none
//	keep      N  how long it outlives its last message, in seconds; absent is unknown
//	held      S, there while messages are held: a shard of the index of waiting groups
//	x         N  when it expires, in milliseconds of Unix time: what conditions are on; absent is never
//	expires   N  the same in seconds, rounded up: the table's time-to-live attribute, which only gives storage back
//
// In the same table a held message, of sort key HELD#source#epoch#sequence, with both numbers in twenty digits:
//
//	pk, sk, f
//	m         B  a held message
//
// Table of tokens, one item a token:
//
//	pk        S  the key's hash in hexadecimal
//	f         N  format
//	st        N  state
//	owner, epoch S or B, N: the fence, and with st what a swap's condition is on
//	fp        B  fingerprint
//	stream, grp  S or B: where the group is
//	lease     N  milliseconds
//	reply     B  a reply of at most 1 KB
//	rkey      S  the key of the item of a larger one
//	why       S or B: reason of the last refusal
//	req       B  a message
//	x, expires   as above
//
// In the same table a larger reply, of the key hash#name, where the name is a hash of the token's owner and epoch and of the reply:
//
//	pk, f, reply, x, expires
const (
	format = 1

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
	attrRetention   = "keep"
	attrHeld        = "held"
	attrExpires     = "x"
	attrTTL         = "expires"

	attrMessage = "m"

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
	attrRequest     = "req"
)

const stateKey = "STATE"

// replyMark stands between a token's key and the name of its reply.
const replyMark = "#"

// WaitingIndex is the index of the table of groups that finds those with messages held: partition key held, sort key pk, keys only. It is sparse: groups without held
// messages are not in it, and cost nothing there.
const WaitingIndex = "waiting"

// waitingShards spread the waiting groups over partitions: one partition takes 1,000 writes a second.
const waitingShards = 8

// shard is where a group waits.
func shard(k record.GroupKey) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(partition(k)))
	return strconv.FormatUint(uint64(h.Sum32()%waitingShards), 10)
}

// item is a stored item.
type item = map[string]types.AttributeValue

func partition(k record.GroupKey) string { return k.Stream + "#" + k.Group }

// parsePartition takes a partition key apart. No stream has the separator in its name.
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

// heldSortKey sorts by number within a source and epoch. A separator within the source's name is replaced by a control character, which no name holds: otherwise
// the numbers of a source named "a#1#2" would lie among those of "a".
func heldSortKey(k record.HeldKey) string {
	return fmt.Sprintf("HELD#%s#%020d#%020d", strings.ReplaceAll(k.Source, "#", "\x1e"), k.Epoch, k.Sequence)
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
