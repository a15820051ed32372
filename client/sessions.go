package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// SessionInfo describes a session to people and to checks.
type SessionInfo struct {
	Name string `json:"name"`
	// Fence and Life are those of the last open. Life names the life of the session's name.
	Fence uint64 `json:"fence"`
	Life  uint64 `json:"life"`
	// Holder is the consumer that holds the session, empty if it is released. LeaseUntil is when
	// its lease expires, and zero then.
	Holder     string    `json:"holder,omitempty"`
	LeaseUntil time.Time `json:"lease_until,omitzero"`
	// LastHolder is the consumer of the last open, also if the session is released.
	LastHolder string `json:"last_holder,omitempty"`
	// Cursor is the last number that was reported as processed, and Last the last one that was
	// dealt to the session.
	Cursor uint64 `json:"cursor"`
	Last   uint64 `json:"last"`
	// Dead are the numbers that are dead letters, in rising order.
	Dead []NumberRange `json:"dead"`
	// Tries counts the failed tries of the entry At, and Detail is the error of the last one.
	Tries  uint64 `json:"tries"`
	At     uint64 `json:"at,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Takeovers counts the opens of the session while it was not released.
	Takeovers uint64 `json:"takeovers"`
	// Retired is true if the session was closed for good, and Returned if its unread entries are
	// back in the pool.
	Retired  bool `json:"retired"`
	Returned bool `json:"returned"`
	// Restored is true if the system was put back to an older copy during the life of the session:
	// its calls return a [*Problem] of type [Restored] until it is retired.
	Restored bool `json:"restored"`
	// Ended is true if the number after Last is the end of the stream.
	Ended bool `json:"ended"`
	// State is the state of the last [Session.Commit] that had one, as JSON.
	State json.RawMessage `json:"state,omitempty"`
}

// Lag returns how many entries were dealt to the session and are not processed.
func (i *SessionInfo) Lag() uint64 { return i.Last - min(i.Last, i.Cursor) }

// A SessionList has the sessions of a pool, or of the log of a group.
type SessionList struct {
	Sessions []SessionInfo `json:"sessions"`
	// Pool describes the pool; it is nil for the log of a group.
	Pool *PoolInfo `json:"pool,omitempty"`
}

// PoolInfo describes the pool of a stream to people and to checks.
type PoolInfo struct {
	Partitions []PartitionInfo `json:"partitions"`
	// Waiting is how many entries are not dealt to any session; Returned of them are of sessions
	// that were retired.
	Waiting  uint64 `json:"waiting"`
	Returned uint64 `json:"returned"`
	// Unread is how many entries were returned after the end: these are dead letters.
	Unread uint64 `json:"unread"`
	// Ended is true if every session has processed its entries, and reads the end.
	Ended bool `json:"ended"`
}

// PartitionInfo describes one log of a pool.
type PartitionInfo struct {
	// Last is the number of the last entry, and Dealt that of the last one that was dealt.
	Last  uint64 `json:"last"`
	Dealt uint64 `json:"dealt"`
	// Ended is true if the end of the stream has arrived in this log.
	Ended bool `json:"ended"`
	// Owner is the session that has the partition, if the pool deals whole partitions.
	Owner string `json:"owner,omitempty"`
}

// Sessions lists the sessions of a stream, or of the log of a group if it is not empty. It makes a
// call for every 1,000 of them.
func (c *Client) Sessions(ctx context.Context, stream, group string) (SessionList, error) {
	var out SessionList
	for after := ""; ; {
		page, err := c.sessionsAfter(ctx, stream, group, after)
		if err != nil {
			return SessionList{}, fmt.Errorf("list sessions: %w", err)
		}
		out.Sessions, out.Pool = append(out.Sessions, page.Sessions...), page.Pool
		if after = page.Next; after == "" {
			return out, nil
		}
	}
}

// A sessionsPage is a part of a list.
type sessionsPage struct {
	SessionList
	Next string `json:"next"`
}

func (c *Client) sessionsAfter(ctx context.Context, stream, group, after string) (sessionsPage, error) {
	o := SessionOptions{Stream: stream, Group: group}
	path := o.path()
	query := url.Values{"max": {"1000"}}
	if after != "" {
		query.Set("after", after)
	}
	r := request{method: http.MethodGet, url: c.at(path[:len(path)-1]...) + "?" + query.Encode()}
	return call(ctx, c, r, func(a answer) (page sessionsPage, p *Problem) {
		if a.status != http.StatusOK || json.Unmarshal(a.body, &page) != nil || page.Sessions == nil {
			return sessionsPage{}, problemOf(a)
		}
		return page, nil
	})
}

// Session describes one session.
func (c *Client) Session(ctx context.Context, stream, group, name string) (SessionInfo, error) {
	o := SessionOptions{Stream: stream, Group: group, Name: name}
	if stream == "" || name == "" {
		return SessionInfo{}, errors.New("describe session: stream and name must not be empty")
	}
	info, err := call(ctx, c, request{method: http.MethodGet, url: c.at(o.path()...)}, func(a answer) (i SessionInfo, p *Problem) {
		if a.status != http.StatusOK || json.Unmarshal(a.body, &i) != nil || i.Fence == 0 {
			return i, problemOf(a)
		}
		return i, nil
	})
	if err != nil {
		return SessionInfo{}, fmt.Errorf("describe session: %w", err)
	}
	return info, nil
}

// HeldSession returns a session that was opened under a fence before, perhaps by another process,
// to release or retire it. It does no input or output, and does not renew the lease.
func (c *Client) HeldSession(o SessionOptions, fence uint64) *Session {
	o = o.withDefaults()
	s := &Session{client: c, options: o, opened: Opened{Stream: o.Stream, Group: o.Group, Name: o.Name, Fence: fence}}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	return s
}

// End ends a stream: it takes no further messages. Each session reads the end after its last entry,
// as soon as all entries are processed. The key identifies the request; repeating it is harmless.
func (c *Client) End(ctx context.Context, stream, key string) error {
	if stream == "" || key == "" {
		return errors.New("end stream: stream and key must not be empty")
	}
	header := http.Header{"Idempotency-Key": {strconv.Quote(key)}}
	r := request{method: http.MethodPost, url: c.at("streams", stream, "end"), header: header}
	_, err := call(ctx, c, r, func(a answer) (struct{}, *Problem) {
		if a.status != http.StatusOK && a.status != http.StatusAccepted && a.status != http.StatusNoContent {
			return struct{}{}, problemOf(a)
		}
		return struct{}{}, nil
	})
	if err != nil {
		return fmt.Errorf("end stream: %w", err)
	}
	return nil
}
