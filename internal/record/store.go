package record

import (
	"context"
	"errors"
	"time"
)

// ErrConflict says that the condition of a conditional write failed: this write was certainly not
// applied, because another one was applied first.
var ErrConflict = errors.New("condition failed")

// ErrFull says that pending effects fill the group record. Nothing was applied; there is room again
// when they are published.
var ErrFull = errors.New("pending effects fill the group record")

// ErrCorrupt says that a record could not be decoded. A corrupt record is never treated as absent.
var ErrCorrupt = errors.New("corrupt record")

// A Store keeps groups, held messages and tokens. Implementations pass storetest.Run.
//
// Every method may be called concurrently. A store copies its arguments and returns copies, so the
// caller may change both later. If a method fails, it may have applied the write or not; only
// ErrConflict guarantees that nothing was applied. If the context is cancelled, a write may be
// applied or not. A store does not retry a conditional write, unless it recognises its own write by
// the name of the attempt or owner; then it reports success.
//
// The store's clock decides expiry inside reads and conditions: if Expires is not after now, a
// record reads as absent, and conditions treat it as absent.
//
// Durability: the results of Load, and each Commit that returned nil, survive a crash. A crash may
// lose a write of MarkDone, Clear or an Issued SwapToken until a later write of the same store, or
// of a queue on the same database, is durable. Writes are never lost out of order.
type Store interface {
	// Load reads groups and tokens, strongly consistent, in the order of the keys, which must not
	// repeat. It reads every group before the first token. A missing group is returned with its key
	// and version 0, a missing token with its key and state Absent.
	Load(ctx context.Context, groups []GroupKey, tokens []TokenKey) ([]Group, []Token, error)

	// Commit writes a group and its changes of held messages, all or nothing. The condition is that
	// the stored record is still the loaded one: it has the incarnation and version of c.Loaded,
	// where version 0 means that there is no record (or an expired one).
	//
	// Pending entries that are in both Loaded and Next are kept as they are stored, so that the
	// marks and removals of a concurrent Clear survive. Entries that are in Loaded only are
	// removed. The caller must not change Loaded. A [*RefusedError] means that the write is too
	// large for the store: nothing was applied, and a retry can't succeed. ErrFull means that it is
	// too large only together with entries that were loaded.
	Commit(ctx context.Context, c Commit) error

	// Clear removes pending entries by number from the group record of that incarnation, replaces
	// others by their kept form, and marks effects of other entries as sent. Missing numbers are
	// ignored, and so is a missing record; an entry that is kept already stays as it is. Clear
	// changes neither the version nor other entries. It sets the expiry as [Group.Expire] does. No
	// number may be in two of the lists.
	Clear(ctx context.Context, c Clear) error

	// Held returns up to limit held messages of one source and epoch, in order, starting at a
	// number. Numbers that are not held are skipped.
	Held(ctx context.Context, from HeldKey, limit int) ([]Held, error)

	// SwapToken writes next if the stored token still has the state, owner and epoch of old; a
	// missing or expired record counts as Absent. On success it returns next. If the condition
	// fails because next itself is stored (same state, owner and epoch), this is a retry of our own
	// write, and SwapToken also returns next. Otherwise it returns the stored token and
	// ErrConflict.
	SwapToken(ctx context.Context, old, next Token) (Token, error)

	// MarkDone writes done tokens without a condition. The caller may pass only tokens of committed
	// messages. Repeating it is harmless.
	MarkDone(ctx context.Context, tokens []Token) error
}

// A StateReader is a store that can read the states of tokens without the rest of the records.
type StateReader interface {
	// TokenStates reads tokens as Load does; replies may be left out.
	TokenStates(ctx context.Context, tokens []TokenKey) ([]Token, error)
}

// TokenStates reads tokens for a caller that does not need their replies.
func TokenStates(ctx context.Context, s Store, tokens []TokenKey) ([]Token, error) {
	if r, ok := s.(StateReader); ok {
		return r.TokenStates(ctx, tokens)
	}
	_, found, err := s.Load(ctx, nil, tokens)
	return found, err
}

// A DoneCommitter is a store that may be able to mark tokens done in a commit. A wrapper of a store
// hides the capability, unless it implements DoneCommitter too.
type DoneCommitter interface {
	// CommitsDone reports whether Commit applies [Commit.Done]. The answer never changes.
	CommitsDone() bool
}

// CommitsDone reports whether the store's Commit applies [Commit.Done]. It is false for a store
// that is not a [DoneCommitter].
func CommitsDone(s Store) bool {
	d, ok := s.(DoneCommitter)
	return ok && d.CommitsDone()
}

// A Commit is one conditional write.
type Commit struct {
	// Loaded is the record as it was loaded; the condition is on its incarnation and version.
	Loaded Group
	// Next is the record to write, of version Loaded.Version + 1.
	Next Group
	// Attempt is the unique name of this try.
	Attempt string
	// Hold is put and Unhold is deleted together with the group. No message is in both.
	Hold   []Held
	Unhold []HeldKey
	// Done are tokens, in state Done, of messages without effects that Next contains. They are
	// written in the same atomic write as the group, and without a condition of their own, as
	// MarkDone writes them: if the commit conflicts, no token changes. They are as durable as the
	// group. No key repeats. If [CommitsDone] is false for the store, Done is empty.
	Done []Token
	// Append are the new entries of the group's log, in chunks that follow Loaded.Log and end at
	// Next.Log. They are written in the same atomic write as the group, and are as durable.
	Append []Chunk
}

// MaxCommitItems is how many held messages one commit may put and delete together, and chunks it
// may append: a DynamoDB transaction takes 100 items.
const MaxCommitItems = 99

// A Clear names the published entries and effects of a group.
type Clear struct {
	Group       GroupKey
	Incarnation uint64
	Numbers     []uint64
	// Done holds the kept form of entries whose effects are sent, see [Pending.Keep]. It replaces
	// the entries of the same numbers.
	Done []Pending
	// Sent marks effects as sent, by the number of their entry, which stays pending.
	Sent map[uint64][]Sent
	// Now is the time from which the record is kept if it becomes idle, see [Group.Expire]. Zero
	// sets no expiry.
	Now time.Time
	// Retention and Until are those of the record that the caller has read: its Retention, and the
	// end of its log and timers. A store may assume them, but the stored record decides.
	Retention time.Duration
	Until     time.Time
}

// NewClear returns a clear of nothing, by a caller that has read g.
func NewClear(g *Group, now time.Time) Clear {
	return Clear{
		Group: g.Key, Incarnation: g.Incarnation, Sent: map[uint64][]Sent{},
		Now: now, Retention: g.Retention, Until: latest(g.Log.Until, g.KeptForTimers()),
	}
}

// A HeldKey names one held message.
type HeldKey struct {
	Group    GroupKey
	Source   string // a [Message.SourceKey]
	Epoch    uint64
	Sequence uint64
}

// A Lister reads a whole store, for sweeps and for people; it is never used to process a message.
// Corrupt records are left out, so that one of them does not keep a sweep from all others: then the
// error wraps [ErrCorrupt], and the other results are valid. If a list is shorter than its limit,
// it is the last one, also with that error.
type Lister interface {
	// Groups returns up to limit groups after the key, in the store's order, without expired ones;
	// if stream is not empty, only its groups. The groups are for display: a store may leave out
	// large parts that it keeps outside the record (the state, replies, bodies and headers of
	// effects).
	Groups(ctx context.Context, stream string, after GroupKey, limit int) ([]Group, error)
	// Tokens returns up to limit tokens after the key, without expired ones.
	Tokens(ctx context.Context, after TokenKey, limit int) ([]Token, error)
	// Expire deletes up to limit expired records and returns how many it deleted.
	Expire(ctx context.Context, limit int) (int, error)
}
