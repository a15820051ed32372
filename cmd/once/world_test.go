package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	wire "github.com/effectively-once/once/internal/front/batch"
	"github.com/effectively-once/once/internal/schedule"
	"github.com/effectively-once/once/internal/system/embedded"
)

var update = flag.Bool("update", false, "write what comes out to testdata")

// front is an API that keeps accepted messages in memory.
type front struct {
	mu    sync.Mutex
	taken map[string]string // body by key
	order []string          // group and body in the order of arrival
	// before may answer in place of front.
	before func(w http.ResponseWriter, r *http.Request) bool
	// old is true for a server of a version that takes no batches
	old     bool
	batches int
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	many := strings.HasSuffix(r.URL.Path, "/batch")
	switch {
	case f.old && many:
		refuse(w, 404, "unknown-route")
	case f.before != nil && f.before(w, r):
	case many:
		f.takeAll(w, r)
	default:
		f.take(w, r)
	}
}

// takeAll takes the messages of a batch as if each had come alone.
func (f *front) takeAll(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.batches++
	f.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	records, err := wire.Read(wire.NDJSON, body)
	if err != nil {
		refuse(w, 400, "malformed-request")
		return
	}
	w.Header().Set("Content-Type", wire.NDJSON)
	for i := range records {
		m := &records[i].Message
		alone, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, r.URL.Path, bytes.NewReader(m.Body))
		alone.Header.Set("Once-Group", m.Group)
		if m.ID != "" {
			alone.Header.Set("Idempotency-Key", strconv.Quote(m.ID))
		}
		if m.Source != "" {
			alone.Header.Set("Once-Source", m.Source)
			alone.Header.Set("Once-Sequence", strconv.FormatUint(m.Sequence, 10))
		}
		answer := httptest.NewRecorder()
		f.take(answer, alone)
		if answer.Code >= 400 {
			_, _ = fmt.Fprintf(w, `{"status":%d,"problem":%s}`+"\n", answer.Code, answer.Body.String())
			continue
		}
		_, _ = fmt.Fprintf(w, `{"status":202,"id":%q,"replayed":%v}`+"\n", m.Identity(), answer.Header().Get("Idempotent-Replayed") == "true")
	}
}

func (f *front) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	stream := strings.Split(r.URL.Path, "/")[3]
	id, _ := strconv.Unquote(r.Header.Get("Idempotency-Key"))
	group := r.Header.Get("Once-Group")
	if source := r.Header.Get("Once-Source"); source != "" && id == "" {
		epoch := r.Header.Get("Once-Epoch")
		if epoch == "" {
			epoch = "0"
		}
		id, group = source+"/"+epoch+"/"+r.Header.Get("Once-Sequence"), source
	}
	if group == "" {
		group = id
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old, had := f.taken[id]
	switch {
	case stream == "nowhere":
		refuse(w, 404, "unknown-stream")
		return
	case bytes.Contains(body, []byte("refuse")):
		refuse(w, 400, "rejected")
		return
	case had && old != string(body):
		refuse(w, 422, "key-reuse")
		return
	case had:
		w.Header().Set("Idempotent-Replayed", "true")
	default:
		f.taken[id] = string(body)
		f.order = append(f.order, group+" "+string(body))
	}
	if r.Header.Get("Prefer") != "" {
		w.Header().Set("Preference-Applied", r.Header.Get("Prefer"))
		w.Header().Set("Once-Reply", "true")
		w.Header()["Date"] = nil
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"receipt":7}`)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(map[string]string{"id": id, "stream": stream, "group": group, "status": "accepted"})
}

func refuse(w http.ResponseWriter, status int, name string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md#%s","title":"Title","status":%d}`, name, status)
}

// world is the environment of the commands of one test.
type world struct {
	front         *front
	url           string
	env           map[string]string // besides ONCE_URL
	folder        *cannedFolder
	server        server
	openErr       error
	out, err      bytes.Buffer
	terminal      bool // err is one
	typed         bool // in is one
	watched       bool // out is one
	keys          bool
	serverOptions embedded.Options // of the last start
	log           *slog.Logger     // of the server that was opened
}

func newWorld(t *testing.T) *world {
	t.Helper()
	f := &front{taken: map[string]string{}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return &world{front: f, url: s.URL, folder: newCannedFolder()}
}

// once runs a command line and returns its exit code.
func (w *world) once(ctx context.Context, in string, args ...string) int {
	w.out.Reset()
	w.err.Reset()
	a := &app{
		in: strings.NewReader(in), out: &w.out, err: &w.err, terminal: w.terminal, typed: w.typed, watched: w.watched,
		env: func(name string) string {
			if name == "ONCE_URL" {
				return w.url
			}
			return w.env[name]
		},
		openServer: func(o embedded.Options) (server, error) {
			w.log, w.keys, w.serverOptions = o.Log, o.LogKeys, o
			return w.server, w.openErr
		},
		inspectFolder: func(context.Context, string, *config.Config) (folder, error) { return w.folder, w.openErr },
		editFolder:    func(context.Context, string, *config.Config) (folder, error) { return w.folder, w.openErr },
		repairFolder:  func(context.Context, string, *config.Config) (folder, error) { return w.folder, w.openErr },
	}
	return a.run(ctx, args)
}

// trace runs the command lines of a file, "$ once …" with standard input in lines of "< ", and
// compares their output, or writes it with -update: standard output unchanged, standard error after
// "! ", and the exit code if it is not 0.
func (w *world) trace(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	head, rest, _ := strings.Cut(string(data), "$ once ")
	got.WriteString(head)
	for block := range strings.SplitSeq(rest, "\n$ once ") {
		command, _, _ := strings.Cut(block, "\n")
		in := ""
		fmt.Fprintf(&got, "$ once %s\n", command)
		for line := range strings.Lines(block) {
			if text, ok := strings.CutPrefix(line, "< "); ok {
				in += strings.TrimSuffix(text, "\n") + "\n"
				got.WriteString("< " + strings.TrimSuffix(text, "\n") + "\n")
			}
		}
		code := w.once(t.Context(), in, words(command)...)
		got.WriteString(w.out.String())
		for line := range strings.Lines(strings.ReplaceAll(w.err.String(), w.url, "URL")) {
			got.WriteString("! " + line)
		}
		if code != 0 {
			fmt.Fprintf(&got, "exit %d\n", code)
		}
		got.WriteString("\n")
	}
	text := strings.TrimRight(got.String(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(data), text); d != "" {
		t.Errorf("%s (-want +got)\n%s", path, d)
	}
}

// words splits a command line at spaces outside of single quotes.
func words(command string) []string {
	var out []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

// cannedFolder is a folder with fixed contents.
type cannedFolder struct {
	failed  int
	closed  bool
	dropped bool
	skipped *admin.SkipOptions
	asked   admin.DropOptions
}

func newCannedFolder() *cannedFolder { return &cannedFolder{} }

func (c *cannedFolder) Close() error { c.closed = true; return nil }

func (c *cannedFolder) Stats(context.Context) (admin.Stats, error) {
	return admin.Stats{
		Streams:    []admin.StreamStats{{Stream: "chat", Groups: 2, Pending: 1, Held: 3}, {Stream: "orders", Groups: 1, TokenStats: admin.TokenStats{Done: 12}}},
		Decorators: &admin.TokenStats{Leased: 1, Done: 20},
		Queues:     []admin.QueueStats{{Queue: "ingress.fifo", Visible: 4, InFlight: 1}, {Queue: "ingress-dead.fifo", Visible: 2, DeadLetter: true, Most: 2, Expiring: 1}},
	}.Total(), nil
}

func at(hour int) time.Time { return time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC) }

func (c *cannedFolder) group() admin.GroupInfo {
	since, expires := at(12), at(13)
	g := admin.GroupInfo{
		Stream: "chat", Group: "room/1", Version: 7, LastNumber: 12, Held: 4, Expires: &expires,
		Pending: []admin.Pending{{Number: 12, ID: "m1", Attempt: "01f", Effects: 2, Sent: 1}},
		Sources: []admin.SourceInfo{{
			Source: "ann", Epoch: 1, Next: 4, Held: []admin.Range{{First: 5, Last: 7}, {First: 9, Last: 9}}, Skipped: []admin.Range{}, GapSince: &since,
		}},
	}
	g.SetState([]byte(`{"cents": 3}`))
	g.Waiting = []admin.Wait{
		{For: admin.WaitNumber, Source: "ann", Epoch: 1, Sequence: 4, Since: &since},
		{For: admin.WaitDestination, ID: "m1", Destination: "shop", Number: 12, Tries: 2, Error: "field x missing", Status: 400, Last: &since, Next: &expires},
	}
	return g
}

func (c *cannedFolder) Groups(_ context.Context, o admin.GroupsOptions) ([]admin.GroupInfo, error) {
	switch o.Stream {
	case "chat":
		g := c.group()
		g.Waiting = nil
		return []admin.GroupInfo{g}[:min(1, o.Limit)], nil
	case "orders":
		return nil, nil
	}
	return nil, fmt.Errorf("stream %s: %w", o.Stream, admin.ErrNotFound)
}

func (c *cannedFolder) Group(_ context.Context, stream, group string) (admin.GroupInfo, error) {
	if g := c.group(); g.Stream == stream && g.Group == group {
		return g, nil
	}
	return admin.GroupInfo{}, fmt.Errorf("group %s/%s: %w", stream, group, admin.ErrNotFound)
}

func (c *cannedFolder) Message(_ context.Context, stream, id string) (admin.MessageInfo, error) {
	last, next := at(12), at(13)
	switch id {
	case "o-1":
	case "o-2":
		return admin.MessageInfo{Stream: stream, ID: id, Group: "customer-7", Status: "accepted", Waiting: []admin.Wait{
			{For: admin.WaitRetry, ID: "o-2", Tries: 3, Error: "handle message: no\x1b[2J", Last: &last, Next: &next},
		}}, nil
	case "o-3":
		return admin.MessageInfo{Stream: stream, ID: id, Status: "accepted", Waiting: []admin.Wait{{For: admin.WaitQueue, ID: "o-3", Queue: "ingress.fifo", Tries: 1}}}, nil
	default:
		return admin.MessageInfo{}, fmt.Errorf("message %s of stream %s: %w", id, stream, admin.ErrNotFound)
	}
	reply := &admin.ReplyInfo{Status: 201}
	reply.SetBody([]byte("two\nlines\x1b[2J"))
	expires := at(14)
	return admin.MessageInfo{Stream: stream, ID: id, Group: "customer-7", Status: "done", Reply: reply, Expires: &expires}, nil
}

func (c *cannedFolder) ByHash(ctx context.Context, o admin.HashOptions) (admin.MessageInfo, error) {
	if o.Hash != "00c0ffee0001" {
		return admin.MessageInfo{}, o.NotFound()
	}
	m, err := c.Message(ctx, "orders", "o-2")
	m.Hash = o.Hash
	return m, err
}

func (c *cannedFolder) Sweep(context.Context) (admin.SweepInfo, error) {
	return admin.SweepInfo{Groups: 3, Finished: 1, Failed: c.failed, Expired: 2, Blobs: 1}, nil
}

func (c *cannedFolder) DeadLetters(_ context.Context, o admin.DeadLettersOptions) ([]admin.DeadLetter, error) {
	if o.Reason == "deleted" {
		return nil, nil
	}
	if o.ID != "" {
		return c.letter(o), nil
	}
	first := at(8)
	return []admin.DeadLetter{
		{Queue: "ingress-dead.fifo", Reason: "unknown", Stream: "pay", ID: "p-1", Group: "p-1", Sent: at(9), Count: 300, First: &first},
		{Queue: "publish-dead", Reason: "gone", Detail: "410 Gone", Stream: "chat", Group: "room/1", Source: "ann", Epoch: 1, Sequence: 3, Destination: "shop", Sent: at(10)},
	}, nil
}

func (c *cannedFolder) Redrive(_ context.Context, o admin.RedriveOptions) (admin.RedriveInfo, error) {
	if o.Queue == "gone" {
		return admin.RedriveInfo{}, errors.New("disk on fire")
	}
	info := admin.RedriveInfo{Redriven: o.Max, Left: 1, Failed: c.failed}
	for range c.failed {
		info.Failures = append(info.Failures, admin.RedriveFailure{Queue: "ingress-dead", MessageID: "m-1", Stream: "orders", ID: "o-1", Error: "once-grup was malformed"})
	}
	return info, nil
}

// letter returns the dead letter p-1 in the requested form.
func (c *cannedFolder) letter(o admin.DeadLettersOptions) []admin.DeadLetter {
	if o.ID != "p-1" || c.dropped {
		return nil
	}
	first := at(8)
	d := admin.DeadLetter{Queue: "ingress-dead", Reason: "rejected", Detail: "no\r\nstock\u202e", Stream: "pay", ID: "p-1", Group: "p-1", Sent: at(9), MessageID: "m-9", Count: 2, First: &first}
	if o.Content != 0 {
		d.Content = &admin.Content{ContentType: "text/plain", Headers: map[string]string{"trace": "t-1", "a": "\x1b[2J"}}
		d.Content.SetBody([]byte("line one\nline \x1b[2J"+strings.Repeat("x", contentShown)), 25)
	}
	return []admin.DeadLetter{d}
}

func (c *cannedFolder) Drop(_ context.Context, o admin.DropOptions) (admin.DropInfo, error) {
	c.asked = o
	letters := c.letter(admin.DeadLettersOptions{ID: o.ID})
	c.dropped = true
	return admin.DropInfo{Dropped: len(letters), Letters: append([]admin.DeadLetter{}, letters...)}, nil
}

func (c *cannedFolder) Schedules(context.Context) ([]schedule.Info, error) {
	at, sent := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC), time.Date(2026, 2, 28, 2, 0, 1, 0, time.UTC)
	last := at.AddDate(0, 0, -1)
	return []schedule.Info{
		{Schedule: "hourly", Cron: "@hourly", Timezone: "UTC", Stream: "orders", Group: "hourly", State: schedule.StateNew, Next: &at},
		{
			Schedule: "nightly", Cron: "0 3 * * *", Timezone: "Europe/Berlin", Stream: "orders", Group: "all", State: schedule.StateWaiting,
			Next: &at, Last: &last, Sent: &sent, ID: "nightly/2026-02-28T02:00:00Z", Missed: 2,
		},
	}, nil
}

func (c *cannedFolder) Skip(_ context.Context, o admin.SkipOptions) (admin.SkipInfo, error) {
	if o.Number != 12 && o.Number != 13 {
		return admin.SkipInfo{}, o.NotPending()
	}
	c.skipped = &o
	return admin.SkipInfo{Destinations: []string{"shop"}}, nil
}
