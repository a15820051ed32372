package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	// Cursor is the last number that was reported as processed, and Last the last one that was
	// dealt to the session.
	Cursor uint64 `json:"cursor"`
	Last   uint64 `json:"last"`
	// Dead are the numbers that are dead letters.
	Dead []uint64 `json:"dead,omitempty"`
	// Tries counts the failed tries of the entry At.
	Tries uint64 `json:"tries"`
	At    uint64 `json:"at,omitempty"`
	// Takeovers counts the opens of the session while it was not released.
	Takeovers uint64 `json:"takeovers"`
	// Retired is true if the session was closed for good, and Returned if its unread entries are
	// back in the pool.
	Retired  bool `json:"retired"`
	Returned bool `json:"returned"`
	// Ended is true if the number after Last is the end of the stream.
	Ended bool `json:"ended"`
}

// Lag returns how many entries were dealt to the session and are not processed.
func (i *SessionInfo) Lag() uint64 { return i.Last - min(i.Last, i.Cursor) }

// Sessions lists the sessions of a stream, or of the log of a group if it is not empty.
func (c *Client) Sessions(ctx context.Context, stream, group string) ([]SessionInfo, error) {
	o := SessionOptions{Stream: stream, Group: group}
	path := o.path()
	r := request{method: http.MethodGet, url: c.at(path[:len(path)-1]...)}
	list, err := call(ctx, c, r, func(a answer) (list []SessionInfo, p *Problem) {
		var document struct {
			Sessions []SessionInfo `json:"sessions"`
		}
		if a.status != http.StatusOK || json.Unmarshal(a.body, &document) != nil {
			return nil, problemOf(a)
		}
		return document.Sessions, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return list, nil
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
