package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/examples/chat/room"
)

// asCommand is the variable that makes the test binary the command.
const asCommand = "CHAT_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestARegionThatCannotBeCutOffIsRefused(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"--cut mars --for 1s", "--cut mars: there is no such region; choose one of africa, america, asia, europe, oceania", 2},
		{"--cut asia", "--cut asia needs --for", 2},
		{"asia", `unexpected argument "asia"`, 2},
		{"--help", "region that is cut off for the second quarter of the time: africa, america, asia, europe, oceania", 0},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, self, append([]string{"--listen", "127.0.0.1:0"}, strings.Fields(c.args)...)...)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		out, _ := cmd.CombinedOutput() // the exit code says whether it has failed
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: exit code %d, %s", c.args, code, out)
		}
	}
}

// A live room runs the five systems, and the page on a port of its own.
type live struct {
	t     *testing.T
	world *world
	url   string
}

func start(t *testing.T) *live {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w, err := open(ctx, options{data: t.TempDir(), latency: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return &live{t, w, "http://" + listener.Addr().String()}
}

// call makes a request of the page, and returns the status and the body.
func (l *live) call(method, path, body string) (int, string) {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// say writes a line, and fails if the page is not told that it is sent.
func (l *live) say(region, by, text, answers string) {
	l.t.Helper()
	body, err := json.Marshal(said{By: by, Text: text, Answers: answers})
	if err != nil {
		l.t.Fatal(err)
	}
	if status, answer := l.call(http.MethodPost, "/rooms/"+region, string(body)); status != http.StatusAccepted {
		l.t.Fatalf("%s: %d %s", region, status, answer)
	}
}

// A screen places rows as the page does.
type screen struct {
	rows  []row
	event string // the id of the last event
}

func (s *screen) add(r row) {
	above := slices.IndexFunc(s.rows, func(x row) bool { return x.ID == r.Above })
	s.rows = slices.Insert(s.rows, above+1, r)
}

func (s *screen) find(text string) (row, bool) {
	i := slices.IndexFunc(s.rows, func(r row) bool { return r.Text == text })
	if i < 0 {
		return row{}, false
	}
	return s.rows[i], true
}

func (s *screen) String() string {
	var b strings.Builder
	for _, r := range s.rows {
		fmt.Fprintf(&b, "%s%s: %s\n", strings.Repeat("  ", r.Depth), r.By, r.Text)
	}
	return b.String()
}

// watch reads events of a region until the screen has n rows.
func (l *live) watch(region string, s *screen, n int) {
	l.t.Helper()
	ctx, stop := context.WithTimeout(l.t.Context(), time.Minute)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/rooms/"+region, http.NoBody)
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", s.event)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); len(s.rows) < n; {
		if !lines.Scan() {
			l.t.Fatalf("%s has %d rows, want %d: %v\n%s", region, len(s.rows), n, lines.Err(), s)
		}
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			s.event = id
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var x row
			if err := json.Unmarshal([]byte(data), &x); err != nil {
				l.t.Fatal(err)
			}
			s.add(x)
		}
	}
}

func TestARegionThatWasCutOffShowsTheSameRoomAsTheOthers(t *testing.T) {
	l := start(t)
	screens := map[string]*screen{}
	for _, name := range names {
		screens[name] = &screen{}
	}
	l.say("europe", "Ann", "Shall we meet on Friday?", "")
	for _, name := range names {
		l.watch(name, screens[name], 1)
	}
	question := screens["asia"].rows[0].ID
	if status, body := l.call(http.MethodPut, "/cut/asia", ""); status != http.StatusOK || !strings.Contains(body, `{"name":"asia","off":true}`) {
		t.Fatal(status, body)
	}
	// both answer the same line, and can't see each other
	l.say("asia", "Bao", "Friday is fine", question)
	l.watch("asia", screens["asia"], 2) // the line has its time
	l.say("america", "Carl", "I prefer Monday", question)
	l.watch("europe", screens["europe"], 2)
	monday, _ := screens["europe"].find("I prefer Monday")
	l.say("europe", "Ann", "Monday then", monday.ID)
	for _, name := range names {
		l.watch(name, screens[name], map[bool]int{true: 2, false: 3}[name == "asia"])
	}
	if _, there := screens["asia"].find("I prefer Monday"); there {
		t.Errorf("asia is not cut off:\n%s", screens["asia"])
	}
	if status, _ := l.call(http.MethodDelete, "/cut/asia", ""); status != http.StatusOK {
		t.Fatal(status)
	}
	want := ""
	for _, name := range names {
		l.watch(name, screens[name], 4)
		if want == "" {
			want = screens[name].String()
		}
		if got := screens[name].String(); got != want {
			t.Errorf("%s shows\n%s%s shows\n%s", name, got, names[0], want)
		}
	}
	if friday, _ := screens["europe"].find("Friday is fine"); !friday.Late || friday.Depth != 1 {
		t.Errorf("the answer from asia is %+v", friday)
	}
	checkFigures(t, l.world)
}

// checkFigures checks the output at the end of the program.
func checkFigures(t *testing.T, w *world) {
	t.Helper()
	report := w.report()
	for _, want := range []string{"from writing to the own screen              4", "from writing to the other screens          16", "lines in an outbox                          4", "messages held in a region            ", "lines pending for other regions      "} {
		if !strings.Contains(report, want) {
			t.Errorf("%q is not in the report:\n%s", want, report)
		}
	}
	file := filepath.Join(t.TempDir(), "room.svg")
	if err := w.draw(file); err != nil {
		t.Fatal(err)
	}
	if svg, err := os.ReadFile(file); err != nil || strings.Count(string(svg), "<circle") != 4 {
		t.Errorf("%v: %s", err, svg)
	}
}

func TestThePageIsServedAndMistakesAreRefused(t *testing.T) {
	l := start(t)
	if status, body := l.call(http.MethodGet, "/", ""); status != http.StatusOK || !strings.Contains(body, "<h1>One room in five regions</h1>") {
		t.Error(status, body)
	}
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodPost, "/rooms/asia", `{"by":"Ann"}`, http.StatusBadRequest},
		{http.MethodPost, "/rooms/asia", `{`, http.StatusBadRequest},
		{http.MethodPost, "/rooms/asia", `{"by":"Ann","text":"x","answers":"nobody/0/1"}`, http.StatusConflict},
		{http.MethodPost, "/rooms/atlantis", `{"by":"Ann","text":"x"}`, http.StatusNotFound},
		{http.MethodGet, "/rooms/atlantis", "", http.StatusNotFound},
		{http.MethodPut, "/cut/atlantis", "", http.StatusNotFound},
		{http.MethodGet, "/nothing", "", http.StatusNotFound},
	} {
		if status, _ := l.call(c.method, c.path, c.body); status != c.want {
			t.Errorf("%s %s %s: %d, want %d", c.method, c.path, c.body, status, c.want)
		}
	}
}

func TestARoomThatEndsWhileItStartsEndsWithoutAnError(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	asia := &region{name: "asia"}
	if err := asia.watch(ctx, t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := asia.watch(t.Context(), t.TempDir()); err == nil {
		t.Error("a region without a server can be watched")
	}
}

func TestTheStatsOfALongRunStaySmall(t *testing.T) {
	s := newStats()
	begin := time.Now()
	for i := range kept + 100 {
		h := room.Heard{Line: room.Line{ID: fmt.Sprint(i), By: "Ann", Text: fmt.Sprint("line ", i), Region: "asia"}}
		s.wrote(h.By, h.Text, 1, begin)
		s.wrote("Bob", h.Text, 1, begin) // and nobody shows it
		s.shown("asia", &h, begin.Add(time.Second))
		s.shown("europe", &h, begin.Add(2*time.Second))
		s.buffered(1, i)
	}
	if len(s.written) != kept || len(s.order) != kept || len(s.lines) != kept || len(s.byID) != kept {
		t.Errorf("%d, %d, %d and %d are kept", len(s.written), len(s.order), len(s.lines), len(s.byID))
	}
	for _, want := range []string{"from writing to the other screens       10100        2s        2s        2s        2s", "lines in an outbox                      20200 "} {
		if !strings.Contains(s.report(), want) {
			t.Errorf("%q is not in the report:\n%s", want, s.report())
		}
	}
}
