package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/schedule"
)

// canned answers every request with its own fields and records the request.
type canned struct {
	stats   admin.Stats
	groups  []admin.GroupInfo
	message admin.MessageInfo
	letters []admin.DeadLetter
	times   []schedule.Info
	err     error
	asked   any
}

func (c *canned) Stats(context.Context) (admin.Stats, error) { return c.stats, c.err }

func (c *canned) Groups(_ context.Context, o admin.GroupsOptions) ([]admin.GroupInfo, error) {
	c.asked = o
	return c.groups, c.err
}

func (c *canned) Group(_ context.Context, stream, group string) (admin.GroupInfo, error) {
	c.asked = [2]string{stream, group}
	if c.err != nil {
		return admin.GroupInfo{}, c.err
	}
	return c.groups[0], nil
}

func (c *canned) Message(_ context.Context, stream, id string) (admin.MessageInfo, error) {
	c.asked = [2]string{stream, id}
	return c.message, c.err
}

func (c *canned) ByHash(_ context.Context, o admin.HashOptions) (admin.MessageInfo, error) {
	c.asked = o
	return c.message, c.err
}

func (c *canned) Sweep(context.Context) (admin.SweepInfo, error) {
	return admin.SweepInfo{Groups: 3, Finished: 1}, c.err
}

func (c *canned) DeadLetters(_ context.Context, o admin.DeadLettersOptions) ([]admin.DeadLetter, error) {
	c.asked = o
	return c.letters, c.err
}

func (c *canned) Redrive(_ context.Context, o admin.RedriveOptions) (admin.RedriveInfo, error) {
	c.asked = o
	return c.redriven(), c.err
}

func (c *canned) redriven() admin.RedriveInfo {
	return admin.RedriveInfo{Redriven: 2, Left: 1, Failed: 1, Failures: []admin.RedriveFailure{{Queue: "dead", MessageID: "m", ID: "x", Error: "full"}}}
}

func (c *canned) Drop(_ context.Context, o admin.DropOptions) (admin.DropInfo, error) {
	c.asked = o
	return admin.DropInfo{Dropped: 1, Letters: c.letters}, c.err
}

func (c *canned) Skip(_ context.Context, o admin.SkipOptions) (admin.SkipInfo, error) {
	c.asked = o
	return admin.SkipInfo{Destinations: []string{"shop"}}, c.err
}

func (c *canned) Schedules(context.Context) ([]schedule.Info, error) { return c.times, c.err }

func serve(t *testing.T, a admin.Admin) *admin.Client {
	t.Helper()
	t.Chdir(t.TempDir()) // the path of the temporary folder may be too long for a socket
	listener, err := admin.Listen(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: admin.Handler(a), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	client, err := admin.Dial(t.Context(), admin.Socket("."))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestEveryAnswerComesThroughTheSocketUnchanged(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	group := admin.GroupInfo{
		Stream: "chat", Group: "a/b ?&", Version: 7, LastNumber: 12,
		Pending: []admin.Pending{{Number: 12, ID: "m1", Attempt: "x", Effects: 2, Sent: 1}}, Held: 3,
		Sources: []admin.SourceInfo{{Source: "s", Epoch: 1, Next: 4, Held: []admin.Range{{First: 5, Last: 7}}, Skipped: []admin.Range{}, GapSince: &since}},
	}
	group.SetState([]byte(`{"cents":3}`))
	group.Waiting = []admin.Wait{{For: admin.WaitNumber, Source: "s", Epoch: 1, Sequence: 4, Since: &since}}
	c := &canned{
		stats:  admin.Stats{Streams: []admin.StreamStats{{Stream: "chat", Held: 3}}, Queues: []admin.QueueStats{{Queue: "dead", Visible: 2, DeadLetter: true}}}.Total(),
		groups: []admin.GroupInfo{group},
		message: admin.MessageInfo{
			Stream: "chat", ID: "é", Status: "committed", Reply: &admin.ReplyInfo{Status: 201},
			Waiting: []admin.Wait{{For: admin.WaitDestination, ID: "m1", Destination: "shop", Number: 12, Tries: 2, Error: "no", Status: 400, Last: &since, Next: &since}},
		},
		letters: []admin.DeadLetter{{Queue: "dead", Reason: "unknown", Stream: "chat", ID: "x", Sent: since, MessageID: "m"}},
	}
	c.times = []schedule.Info{{Schedule: "nightly", Cron: "0 3 * * *", Timezone: "UTC", Stream: "chat", Group: "g", State: schedule.StateWaiting, Next: &since, Missed: 3}}
	c.letters[0].Content = &admin.Content{Headers: map[string]string{"a": "b"}}
	c.letters[0].Content.SetBody([]byte("text"), 3)
	client := serve(t, c)
	ctx := t.Context()
	same := func(asked, wantAsked, got, want any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(wantAsked, asked); d != "" {
			t.Error(d)
		}
	}
	stats, err := client.Stats(ctx)
	same(nil, nil, stats, c.stats, err)
	groups, err := client.Groups(ctx, admin.GroupsOptions{Stream: "chat", After: "ü", Limit: 5})
	same(c.asked, admin.GroupsOptions{Stream: "chat", After: "ü", Limit: 5}, groups, c.groups, err)
	one, err := client.Group(ctx, "chat", "a/b ?&")
	same(c.asked, [2]string{"chat", "a/b ?&"}, one, group, err)
	message, err := client.Message(ctx, "chat", "é")
	same(c.asked, [2]string{"chat", "é"}, message, c.message, err)
	byHash, err := client.ByHash(ctx, admin.HashOptions{Stream: "chat", Hash: "0123456789ab"})
	same(c.asked, admin.HashOptions{Stream: "chat", Hash: "0123456789ab"}, byHash, c.message, err)
	letters, err := client.DeadLetters(ctx, admin.DeadLettersOptions{Queue: "q", Stream: "s", Reason: "unknown", ID: "a/b?", Content: -1})
	same(c.asked, admin.DeadLettersOptions{Queue: "q", Stream: "s", Reason: "unknown", ID: "a/b?", Content: -1}, letters, c.letters, err)
	redriven, err := client.Redrive(ctx, admin.RedriveOptions{Queue: "q", Stream: "s", Reason: "gone", ID: "ü", Max: 4})
	same(c.asked, admin.RedriveOptions{Queue: "q", Stream: "s", Reason: "gone", ID: "ü", Max: 4}, redriven, c.redriven(), err)
	drop := admin.DropOptions{
		Queue: "q", Stream: "s", Reason: "gone", ID: "ü", Until: since.Add(time.Nanosecond), MessageIDs: []string{"1", "2"}, By: "ann",
	}
	dropped, err := client.Drop(ctx, drop)
	same(c.asked, drop, dropped, admin.DropInfo{Dropped: 1, Letters: c.letters}, err)
	skip := admin.SkipOptions{Stream: "chat", Group: "a/b ?&", Number: 1<<64 - 1}
	skipped, err := client.Skip(ctx, skip)
	same(c.asked, skip, skipped, admin.SkipInfo{Destinations: []string{"shop"}}, err)
	schedules, err := client.Schedules(ctx)
	same(nil, nil, schedules, c.times, err)
	swept, err := client.Sweep(ctx)
	same(nil, nil, swept, admin.SweepInfo{Groups: 3, Finished: 1}, err)
}

func TestNotFoundSurvivesTheSocketAndOtherErrorsAreText(t *testing.T) {
	c := &canned{err: fmt.Errorf("group chat/x: %w", admin.ErrNotFound)}
	client := serve(t, c)
	_, err := client.Group(t.Context(), "chat", "x")
	if !errors.Is(err, admin.ErrNotFound) || err.Error() != "group chat/x: not found" {
		t.Errorf("got %v", err)
	}
	c.err = fmt.Errorf("%w: no groups here", c.err)
	if _, err := client.Group(t.Context(), "chat", "x"); !errors.Is(err, admin.ErrNotFound) || err.Error() != "group chat/x: not found: no groups here" {
		t.Errorf("got %v", err)
	}
	c.err = errors.New("disk on fire")
	if _, err := client.Sweep(t.Context()); err == nil || err.Error() != "disk on fire" {
		t.Errorf("got %v", err)
	}
}

func TestDialDistinguishesAMissingServerFromADeadOne(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if _, err := admin.Dial(t.Context(), admin.SocketName); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: got %v", err)
	}
	listener, err := admin.Listen(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // the state after kill -9
	_ = listener.Close()
	if _, err := admin.Dial(t.Context(), admin.SocketName); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dead: got %v", err)
	}
	listener, err = admin.Listen(t.Context(), ".")
	if err != nil {
		t.Fatalf("listen over a dead socket: %v", err)
	}
	_ = listener.Close()
}

func TestAnEmptyListIsAList(t *testing.T) {
	for _, path := range []string{"/groups?stream=chat", "/dead-letters"} {
		w := httptest.NewRecorder()
		admin.Handler(&canned{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if got := w.Body.String(); got != "[]\n" {
			t.Errorf("%s: %q", path, got)
		}
	}
	w := httptest.NewRecorder()
	admin.Handler(&canned{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/groups?limit=many", nil))
	if w.Code != http.StatusBadRequest {
		t.Errorf("a bad limit: %d", w.Code)
	}
}

func TestStatsAreIdleWhenNoWorkIsPending(t *testing.T) {
	for _, c := range []struct {
		name  string
		stats admin.Stats
		idle  bool
	}{
		{"empty", admin.Stats{}, true},
		{"dead letters wait for people", admin.Stats{Queues: []admin.QueueStats{{Visible: 3, DeadLetter: true}}}, true},
		{"issued tokens wait for their sender", admin.Stats{Streams: []admin.StreamStats{{TokenStats: admin.TokenStats{Issued: 1, Done: 5}}}}, true},
		{"pending", admin.Stats{Streams: []admin.StreamStats{{Pending: 1}}}, false},
		{"held", admin.Stats{Streams: []admin.StreamStats{{Held: 1}}}, false},
		{"leased", admin.Stats{Streams: []admin.StreamStats{{TokenStats: admin.TokenStats{Leased: 1}}}}, false},
		{"leased by a decorator", admin.Stats{Decorators: &admin.TokenStats{Leased: 1}}, false},
		{"on a queue", admin.Stats{Queues: []admin.QueueStats{{Visible: 1}}}, false},
		{"in flight", admin.Stats{Queues: []admin.QueueStats{{InFlight: 1}}}, false},
		{"delayed triggers find nothing left", admin.Stats{Queues: []admin.QueueStats{{Queue: "publish", Delayed: 1}}}, true},
		{"delayed messages wait for their turn", admin.Stats{Queues: []admin.QueueStats{{Queue: "ingress", Delayed: 1}}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.stats.Total()
			if got.Idle != c.idle {
				t.Errorf("idle = %v", got.Idle)
			}
			if got.Delayed > 0 && got.Idle {
				t.Errorf("idle, and %d delayed", got.Delayed)
			}
		})
	}
}

func TestStateAndReplyAreShownAsTheyCanBeRead(t *testing.T) {
	var g admin.GroupInfo
	g.SetState([]byte{0xa1, 0x61})
	if g.State != nil || len(g.StateBase64) != 2 {
		t.Errorf("binary state: %+v", g)
	}
	var r admin.ReplyInfo
	for _, c := range []struct{ body, json, text string }{{`{"a":1}`, `{"a":1}`, ""}, {"hello", "", "hello"}, {"", "", ""}} {
		r.SetBody([]byte(c.body))
		if string(r.JSON) != c.json || r.Text != c.text || r.Base64 != nil {
			t.Errorf("%q: %+v", c.body, r)
		}
	}
	r.SetBody([]byte{0xff})
	if len(r.Base64) != 1 {
		t.Errorf("binary body: %+v", r)
	}
}

func TestADropThatSelectsNothingIsRefused(t *testing.T) {
	c := &canned{}
	client := serve(t, c)
	if _, err := client.Drop(t.Context(), admin.DropOptions{Queue: "ingress-dead"}); err == nil || err.Error() != admin.ErrDropAll.Error() || c.asked != nil {
		t.Errorf("%v, asked %v", err, c.asked)
	}
}

func TestContentIsTruncatedBetweenCharactersAndMarked(t *testing.T) {
	for _, c := range []struct {
		body string
		most int
		want admin.Content
	}{
		{`{"a":1}`, 7, admin.Content{Bytes: 7, Body: admin.Body{JSON: []byte(`{"a":1}`)}}},
		{`{"a":1}`, 6, admin.Content{Bytes: 7, Truncated: true, Body: admin.Body{Text: `{"a":1`}}},
		{"aé", 2, admin.Content{Bytes: 3, Truncated: true, Body: admin.Body{Text: "a"}}},
		{"aé", -1, admin.Content{Bytes: 3, Body: admin.Body{Text: "aé"}}},
		{"\xff\x80\x80", 2, admin.Content{Bytes: 3, Truncated: true, Body: admin.Body{Base64: []byte("\xff\x80")}}},
		{"", 2, admin.Content{}},
	} {
		var got admin.Content
		got.SetBody([]byte(c.body), c.most)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q, at most %d (-want +got)\n%s", c.body, c.most, d)
		}
	}
}

func TestAServerWithoutACommandIsNamedAsTheReason(t *testing.T) {
	_, err := serve(t, &canned{}).Backup(t.Context(), "/backup") // canned makes no backups, as an older server
	if err == nil || errors.Is(err, admin.ErrNotFound) || !strings.Contains(err.Error(), "another version") {
		t.Error(err)
	}
}
