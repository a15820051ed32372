package record

import (
	"context"
	"errors"
	"time"
)

// ErrConflict says that the condition of a conditional write failed: the write was certainly not applied, and somebody else's was.
var ErrConflict = errors.New("condition failed")

// ErrFull says that what waits to be published fills the record: nothing was applied, and there is room once it is published.
var ErrFull = errors.New("pending effects fill the group record")

// ErrCorrupt says that a record could not be decoded. A corrupt record is never treated as absent.
var ErrCorrupt = errors.New("corrupt record")

// A Store keeps groups, held messages and tokens. Implementations pass storetest.Run.
//
// Every method may be called concurrently. A store copies what it keeps and hands out copies: the caller may change arguments and results later.
// Every method may fail before it applied anything, or after; only ErrConflict is a promise that nothing was applied. Cancelling the context
// leaves a write applied or not. A store does not retry a conditional write, unless it recognises its own write by the attempt's or owner's name and
// then reports success.
//
// Expiry is decided by the store's clock inside reads and conditions: a record whose Expires is not after now reads as absent, and a condition
// treats it as absent.
//
// Durability: what Load returns, and what Commit has returned nil for, survives a crash. A write of MarkDone, Clear or an Issued SwapToken may be lost by a crash
// until any later write of the same store, or of a queue on the same database, has become durable; writes are never lost out of order.
type Store interface {
	// Load reads groups and tokens, strongly consistent, in the order of the keys; keys are not repeated. No token is read before the last group was
	// read. A missing group is returned with its key and version 0, a missing token with its key and state Absent.
	Load(ctx context.Context, groups []GroupKey, tokens []TokenKey) ([]Group, []Token, error)

	// Commit writes a group and its changes of held messages, all or nothing, if the stored record still is the one that was loaded:
	// of incarnation c.Loaded.Incarnation and version c.Loaded.Version, where version 0 means that there is none (or an expired one).
	// Pending entries that were loaded and are in Next are kept as they are stored, so that what a Clear removed or marked since stays so; those that Next leaves
	// out are removed. Loaded must be passed as it was loaded. A [*RefusedError] says that what is to be written is too large for the store: nothing was applied, and no
	// repetition will mend it; ErrFull says that it is too large only beside entries that were loaded.
	Commit(ctx context.Context, c Commit) error

	// Clear removes pending entries by number, and marks parts of entries as sent, in the group record of that incarnation; numbers that are not there are
	// fine, and so is a missing record. It changes neither the version nor other entries. Where it leaves nothing pending and nothing held, it sets the
	// record's Expires to c.Expires, unless it is set already.
	Clear(ctx context.Context, c Clear) error

	// Held reads held messages of one source and epoch from a number on, in order: at most limit, only those that are there.
	Held(ctx context.Context, from HeldKey, limit int) ([]Held, error)

	// SwapToken writes next if the stored token still has the state, owner and epoch of old, where Absent stands for a missing or an expired record. If not, it
	// returns the stored token and ErrConflict, unless that is next itself (same state, owner and epoch): our own write, retried. On success it returns next.
	SwapToken(ctx context.Context, old, next Token) (Token, error)

	// MarkDone puts done tokens, without a condition: only for messages that are committed. Repeating it is harmless.
	MarkDone(ctx context.Context, tokens []Token) error
}

// A StateReader is a store that reads less where only the states of tokens are asked for.
type StateReader interface {
	// TokenStates reads tokens as Load does; replies may be left out.
	TokenStates(ctx context.Context, tokens []TokenKey) ([]Token, error)
}

// TokenStates reads tokens of which the replies do not matter: a leftover entry has its own.
func TokenStates(ctx context.Context, s Store, tokens []TokenKey) ([]Token, error) {
	if r, ok := s.(StateReader); ok {
		return r.TokenStates(ctx, tokens)
	}
	_, found, err := s.Load(ctx, nil, tokens)
	return found, err
}

// A Commit is one conditional write.
type Commit struct {
	// Loaded is the record as it was loaded; the condition is on its incarnation and version.
	Loaded Group
	// Next is the record to write, of version Loaded.Version + 1.
	Next Group
	// Attempt is the unique name of this try.
	Attempt string
	// Hold is put, Unhold is deleted, together with the group. No message is in both.
	Hold   []Held
	Unhold []HeldKey
}

// MaxCommitItems is how many held messages one commit may put and delete together: a DynamoDB transaction takes 100 items.
const MaxCommitItems = 99

// A Clear names what of a group has been published.
type Clear struct {
	Group       GroupKey
	Incarnation uint64
	Numbers     []uint64
	// Sent marks effects of entries that stay, by number.
	Sent    map[uint64][]Sent
	Expires time.Time
}

// A HeldKey names one held message.
type HeldKey struct {
	Group    GroupKey
	Source   string // a [Message.SourceKey]
	Epoch    uint64
	Sequence uint64
}

// A Lister walks through a whole store for sweeps and for people; never on a message's path. Corrupt records are passed over, so that none keeps the others from a sweep: the
// error then wraps [ErrCorrupt], and what is given is valid. A list that is shorter than its limit is the end, also with that error.
type Lister interface {
	// Groups gives up to limit groups after the key, in the store's order, expired ones left out; of one stream where stream is not empty. They are for looking at, not for working
	// on: what a store keeps apart from a record because it is large, it may leave out: the state, replies, and bodies and headers of effects.
	Groups(ctx context.Context, stream string, after GroupKey, limit int) ([]Group, error)
	// Tokens gives up to limit tokens after the key, expired ones left out.
	Tokens(ctx context.Context, after TokenKey, limit int) ([]Token, error)
	// Expire deletes up to limit records that have expired, and tells how many it deleted.
	Expire(ctx context.Context, limit int) (int, error)
}
