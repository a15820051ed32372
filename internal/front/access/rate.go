package access

import (
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/effectively-once/once/internal/config"
)

// maxBuckets bounds the memory of a limiter. Beyond it, those that are full again are dropped.
const maxBuckets = 10_000

// A limiter has a token bucket for each caller.
type limiter struct {
	limit rate.Limit
	burst int
	now   func() time.Time

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
	sweep   int // how many buckets there may be until the full ones are dropped
}

// newLimiter returns nil if there is no limit.
func newLimiter(c *config.Rate, now func() time.Time) *limiter {
	if c == nil {
		return nil
	}
	burst := c.Burst
	if burst == 0 {
		burst = c.PerSecond
	}
	return &limiter{limit: rate.Limit(c.PerSecond), burst: burst, now: now, buckets: map[string]*rate.Limiter{}, sweep: maxBuckets}
}

// take reports whether a request may be served now. If not, it returns the time until one may.
func (l *limiter) take(who string) (wait time.Duration, ok bool) {
	if l == nil {
		return 0, true
	}
	now := l.now()
	l.mu.Lock()
	bucket, known := l.buckets[who]
	if !known {
		l.drop(now)
		bucket = rate.NewLimiter(l.limit, l.burst)
		l.buckets[who] = bucket
	}
	l.mu.Unlock()
	r := bucket.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, false
	}
	return 0, true
}

// drop forgets the buckets that are full: a new one is as full. The caller holds the lock.
func (l *limiter) drop(now time.Time) {
	if len(l.buckets) < l.sweep {
		return
	}
	for who, bucket := range l.buckets {
		if bucket.TokensAt(now) >= float64(l.burst) {
			delete(l.buckets, who)
		}
	}
	l.sweep = max(maxBuckets, 2*len(l.buckets))
}

// bucketOf returns the name of the bucket of a request: the principal, and without one the address.
func bucketOf(r *http.Request, c Caller) string {
	if c.Principal != "" {
		return c.Principal
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
