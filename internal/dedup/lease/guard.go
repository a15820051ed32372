package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/record"
)

// A Store is the part of [record.Store] that the guard uses.
type Store interface {
	Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error)
	SwapToken(ctx context.Context, old, next record.Token) (record.Token, error)
}

// Defaults of [Config].
const (
	defaultLease    = time.Minute
	DefaultMaxReply = 256 << 10
)

// The scopes separate the tokens of decorators and of middleware from those of streams, whose names
// start with a letter or a digit. The name of a stream or a service follows.
const (
	HandlerScope = "~handler/"
	HTTPScope    = "~http/"
)

// Config sets a guard's times and limits. Zero fields take the defaults in their comments.
type Config struct {
	// Retention is how long the token of a done message, or of a crashed attempt, is kept. Defaults
	// to [record.DefaultRetention].
	Retention time.Duration
	// Lease is how long a claim lasts without being extended. Defaults to 1 minute.
	Lease time.Duration
	// Heartbeat is the time between extensions, at most half a lease. Defaults to a third of it.
	Heartbeat time.Duration
	// MaxReply is the largest reply that is kept, in bytes of headers and body. Defaults to
	// [DefaultMaxReply].
	MaxReply int
	// Now defaults to time.Now.
	Now func() time.Time
	// NewID makes unique names for attempts. Defaults to 128 random bits.
	NewID func() string
	// Pause waits between the tries of one write. Defaults to a timer.
	Pause func(ctx context.Context, d time.Duration) error
	// Log receives warnings about discarded results and leases that could not be released. Defaults
	// to discarding them.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Retention <= 0 {
		c.Retention = record.DefaultRetention
	}
	if c.Lease <= 0 {
		c.Lease = defaultLease
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
		c.Pause = backoff.Sleep
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Guard runs handlers under the tokens of one store. It keeps nothing in memory between calls, so
// any number of guards may share a store.
type Guard struct {
	store Store
	Config
}

// New returns a guard. It does no input or output.
func New(store Store, c Config) *Guard { return &Guard{store, c.withDefaults()} }

// An Identity is the key of a message, and a hash of its content.
type Identity struct {
	Key         record.TokenKey
	Fingerprint record.Fingerprint
}

// A Func is the handler. The guard does not recover its panics.
type Func func(ctx context.Context) (*record.Reply, error)

// A Result is the result of a message that is done.
type Result struct {
	Reply *record.Reply
	// Duplicate says that Reply belongs to another attempt.
	Duplicate bool
}

// The errors of a message that is not done.
var (
	// ErrKeyReuse says that the identity was used before with other content.
	ErrKeyReuse = errors.New("identity was used with another content")
	// ErrFenced says that the lease expired, or was taken over, while the handler ran: its result
	// was discarded. It is also the cause of the cancellation of the handler's context.
	ErrFenced = errors.New("lease was lost")
	// ErrReplyTooLarge says that the handler ran, but its reply is too large to be kept. The
	// message is done and will not run again.
	ErrReplyTooLarge = errors.New("reply is too large to be remembered")
)

// A LeasedError says that another attempt is running the handler.
type LeasedError struct {
	// RetryAfter is the time until its lease expires. A heartbeat may extend the lease.
	RetryAfter time.Duration
}

func (e *LeasedError) Error() string { return "another attempt runs now" }
