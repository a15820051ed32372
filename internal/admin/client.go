package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/schedule"
)

// Client is an Admin that calls a server: through a unix socket, or on another machine.
type Client struct {
	http   http.Client
	remote string // the address of another machine, without a slash at the end
	key    string
}

var (
	_ Admin    = (*Client)(nil)
	_ Backuper = (*Client)(nil)
)

// Dial connects to the socket at a path and checks that a server answers. If a killed server left
// the file behind, the error wraps ECONNREFUSED; if the file is missing, fs.ErrNotExist. Close the
// client after use.
func Dial(ctx context.Context, path string) (*Client, error) {
	var dialer net.Dialer
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
	conn, err := dial(ctx, "", "")
	if err != nil {
		return nil, fmt.Errorf("connect to admin socket: %w", err)
	}
	_ = conn.Close() // it was only a probe
	return &Client{http: http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
}

// Close closes idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Stats implements [Admin].
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	return ask[Stats](ctx, c, http.MethodGet, "/stats", nil)
}

// Schedules implements [Admin].
func (c *Client) Schedules(ctx context.Context) ([]schedule.Info, error) {
	return ask[[]schedule.Info](ctx, c, http.MethodGet, "/schedules", nil)
}

// Groups implements [Admin].
func (c *Client) Groups(ctx context.Context, o GroupsOptions) ([]GroupInfo, error) {
	return ask[[]GroupInfo](ctx, c, http.MethodGet, "/groups",
		url.Values{"stream": {o.Stream}, "after": {o.After}, "limit": {strconv.Itoa(o.Limit)}})
}

// Group implements [Admin].
func (c *Client) Group(ctx context.Context, stream, group string) (GroupInfo, error) {
	return ask[GroupInfo](ctx, c, http.MethodGet, "/group", url.Values{"stream": {stream}, "group": {group}})
}

// Message implements [Admin].
func (c *Client) Message(ctx context.Context, stream, id string) (MessageInfo, error) {
	return ask[MessageInfo](ctx, c, http.MethodGet, "/message", url.Values{"stream": {stream}, "id": {id}})
}

// ByHash implements [Admin].
func (c *Client) ByHash(ctx context.Context, o HashOptions) (MessageInfo, error) {
	return ask[MessageInfo](ctx, c, http.MethodGet, "/by-hash", url.Values{"stream": {o.Stream}, "hash": {o.Hash}})
}

// Sweep implements [Admin].
func (c *Client) Sweep(ctx context.Context) (SweepInfo, error) {
	return ask[SweepInfo](ctx, c, http.MethodPost, "/sweep", nil)
}

// DeadLetters implements [Admin].
func (c *Client) DeadLetters(ctx context.Context, o DeadLettersOptions) ([]DeadLetter, error) {
	return ask[[]DeadLetter](ctx, c, http.MethodGet, "/dead-letters",
		url.Values{"queue": {o.Queue}, "stream": {o.Stream}, "reason": {o.Reason}, "id": {o.ID}, "limit": {strconv.Itoa(o.Limit)}, "content": {strconv.Itoa(o.Content)}})
}

// Redrive implements [Admin].
func (c *Client) Redrive(ctx context.Context, o RedriveOptions) (RedriveInfo, error) {
	return ask[RedriveInfo](ctx, c, http.MethodPost, "/redrive",
		url.Values{"queue": {o.Queue}, "stream": {o.Stream}, "reason": {o.Reason}, "id": {o.ID}, "max": {strconv.Itoa(o.Max)}, "answered": {strconv.FormatBool(o.Answered)}, "by": {o.By}})
}

// Drop implements [Admin].
func (c *Client) Drop(ctx context.Context, o DropOptions) (DropInfo, error) {
	values := url.Values{
		"queue": {o.Queue}, "stream": {o.Stream}, "reason": {o.Reason}, "id": {o.ID}, "message_id": o.MessageIDs, "by": {o.By},
	}
	if !o.Until.IsZero() {
		values.Set("until", o.Until.UTC().Format(time.RFC3339Nano))
	}
	return ask[DropInfo](ctx, c, http.MethodPost, "/drop", values)
}

// Skip implements [Admin].
func (c *Client) Skip(ctx context.Context, o SkipOptions) (SkipInfo, error) {
	return ask[SkipInfo](ctx, c, http.MethodPost, "/skip",
		url.Values{"stream": {o.Stream}, "group": {o.Group}, "number": {strconv.FormatUint(o.Number, 10)}})
}

// Backup implements [Backuper].
func (c *Client) Backup(ctx context.Context, dir string) (BackupInfo, error) {
	return ask[BackupInfo](ctx, c, http.MethodPost, "/backup", url.Values{"dir": {dir}})
}

func ask[T any](ctx context.Context, c *Client, method, path string, values url.Values) (T, error) {
	var result T
	r, err := c.request(ctx, method, path, values)
	if err != nil {
		return result, c.failed(err)
	}
	resp, err := c.http.Do(r) //nolint:gosec // the operator names the server
	if err != nil {
		return result, c.failed(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if c.remote != "" {
		if err := c.foreign(resp); err != nil {
			return result, err
		}
	}
	if resp.StatusCode != http.StatusOK {
		return result, refusal(resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(&result); err != nil {
		return result, fmt.Errorf("read answer of running server: %w", err)
	}
	return result, nil
}

// request makes the request of an operation. The parameters of a POST are a form in its body: a
// drop has more of them than a URL can hold.
func (c *Client) request(ctx context.Context, method, path string, values url.Values) (*http.Request, error) {
	base, body := c.remote+Path, ""
	if c.remote == "" {
		base = "http://admin"
	}
	if method == http.MethodPost {
		body = values.Encode()
	} else {
		path += "?" + values.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body)) //nolint:gosec // see ask
	if err != nil {
		return nil, err
	}
	if body != "" {
		r.Header.Set("Content-Type", formType)
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	return r, nil
}

// notFound is [ErrNotFound] with the text of the server.
type notFound string

func (e notFound) Error() string { return string(e) }

func (notFound) Unwrap() error { return ErrNotFound }

func refusal(resp *http.Response) error {
	var f failure
	if err := json.NewDecoder(resp.Body).Decode(&f); err != nil || f.Error == "" {
		f.Error = resp.Status
		if resp.StatusCode == http.StatusNotFound { // by the router, and not by an operation
			return errors.New("the running server does not know this command: it is of another version")
		}
	}
	if resp.StatusCode == http.StatusNotFound {
		return notFound(f.Error)
	}
	return errors.New(f.Error)
}
