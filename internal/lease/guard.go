package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A Store is what the guard needs of a [record.Store].
type Store interface {
	Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error)
	SwapToken(ctx context.Context, old, next record.Token) (record.Token, error)
}

// Defaults of [Config].
const (
	DefaultLease    = time.Minute
	DefaultMaxReply = 256 << 10
)

// Config sets a guard's times and limits. Zero fields take the defaults in their comments.
type Config struct {
	// Retention is how long a done message, and a crashed attempt, is remembered. Defaults to [record.DefaultRetention].
	Retention time.Duration
	// Lease is how long a claim holds without being extended. Defaults to [DefaultLease].
	Lease time.Duration
	// Heartbeat is the time between extensions, at most half a lease. Defaults to a third of it.
	Heartbeat time.Duration
	// MaxReply is the largest reply that is remembered, in bytes of headers and body. Defaults to [DefaultMaxReply].
	MaxReply int
	// Now defaults to time.Now.
	Now func() time.Time
	// NewID makes unique names for attempts. Defaults to 128 random bits.
	NewID func() string
	// Pause waits between the tries of one write. Defaults to waiting.
	Pause func(ctx context.Context, d time.Duration) error
	// Log is told of discarded results and of leases that could not be released. Defaults to discarding.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Retention <= 0 {
		c.Retention = record.DefaultRetention
	}
	if c.Lease <= 0 {
		c.Lease = DefaultLease
	}
	if c.Heartbeat <= 0 || c.Heartbeat > c.Lease/2 {
		c.Heartbeat = c.Lease / 3
	}
	if c.MaxReply <= 0 {
		c.MaxReply = DefaultMaxReply
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = rand.Text
	}
	if c.Pause == nil {
		c.Pause = pause
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Guard runs handlers under the tokens of one store. It keeps nothing between calls; any number of guards may share a store.
type Guard struct {
	store Store
	Config
}

// New makes a guard. It does no work.
func New(store Store, c Config) *Guard { return &Guard{store, c.withDefaults()} }

// An Identity says which message a handler runs for, and what its sender meant by it.
type Identity struct {
	Key         record.TokenKey
	Fingerprint record.Fingerprint
}

// A Func is the handler. A panic goes through the guard to its caller.
type Func func(ctx context.Context) (*record.Reply, error)

// A Result is what became of a message that is done.
type Result struct {
	Reply *record.Reply
	// Duplicate tells that Reply is another attempt's.
	Duplicate bool
}

// The errors of a message that is not done.
var (
	// ErrKeyReuse says that the identity was used before with another content.
	ErrKeyReuse = errors.New("identity was used with another content")
	// ErrFenced says that the lease ran out, or was taken over, while the handler ran: its result was discarded. It is also the cause with which the
	// handler's context ends.
	ErrFenced = errors.New("lease was lost")
	// ErrReplyTooLarge says that the handler ran, and that its reply is too large to be remembered. The message is done, and stays it.
	ErrReplyTooLarge = errors.New("reply is too large to be remembered")
)

// A LeasedError says that another attempt runs the handler now.
type LeasedError struct {
	// RetryAfter is when its lease runs out, counted from now. A heartbeat may extend it.
	RetryAfter time.Duration
}

func (e *LeasedError) Error() string { return "another attempt runs now" }
