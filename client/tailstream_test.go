package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// A logServer has logs of groups with numbered entries.
type logServer struct {
	ends   map[string]uint64
	hidden bool                      // changes are not told
	forget bool                      // the marks are not known
	page   func(group string) uint64 // entries of a page; nil: all

	refuse func(group, after string) bool // 410
	asked  []string                       // the groups of the requests for logs
}

func offset(n uint64) string { return log.Offset{Incarnation: 7, Number: n}.String() }

func (s *logServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	answer := func(status int, kind, body string, header ...string) (*http.Response, error) {
		a := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		for i := 0; i < len(header); i += 2 {
			a.Header.Set(header[i], header[i+1])
		}
		return a, nil
	}
	group, isLog := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v1/streams/room/groups/"), "/log")
	if !isLog {
		return s.groups(q.Get("changes"), answer)
	}
	if s.refuse != nil && s.refuse(group, q.Get("after")) {
		return answer(410, "application/problem+json", `{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md#expired","title":"x","status":410,"first":3,"next":"`+offset(2)+`"}`)
	}
	s.asked = append(s.asked, group)
	at, _ := log.ParseOffset(q.Get("after"))
	to := s.ends[group]
	if at.Number > to { // as a server that was restored from an older copy
		return answer(409, "application/problem+json", `{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md#ahead","title":"x","status":409,"next":"`+offset(to)+`"}`)
	}
	if s.page != nil {
		to = min(to, at.Number+s.page(group))
	}
	var body []byte
	for _, c := range log.Chunks(&record.Group{Key: record.GroupKey{Stream: "room", Group: group}, Incarnation: 7}, numbered(at.Number+1, to)) {
		list, err := log.Split(c, 0)
		if err != nil {
			return nil, err
		}
		for i := range list {
			body = list[i].AppendCBOR(body, 7, "")
		}
	}
	return answer(200, "application/cbor-seq", string(body), "Once-Next", offset(to))
}

func (s *logServer) groups(changes string, answer func(int, string, string, ...string) (*http.Response, error)) (*http.Response, error) {
	if changes != "" {
		time.Sleep(20 * time.Second) // virtual time: the wait of the server, in vain
		if s.forget {
			return answer(410, "application/problem+json", `{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md#expired","title":"x","status":410}`)
		}
		if s.hidden {
			return answer(200, "application/json", `{"groups":[],"changes":"m"}`)
		}
	}
	var list []string
	for _, group := range slices.Sorted(maps.Keys(s.ends)) {
		list = append(list, fmt.Sprintf(`{"group":%q,"last":%q,"end":false}`, group, offset(s.ends[group])))
	}
	return answer(200, "application/json", `{"groups":[`+strings.Join(list, ",")+`],"changes":"m"}`)
}

func tailStream(t *testing.T, s *logServer, o client.StreamTailOptions) *client.StreamTail {
	t.Helper()
	c, err := client.New("http://once.test", client.Options{HTTP: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	return c.TailStream("room", o)
}

func TestATailOfAStreamFindsEntriesThatTheServerDoesNotTellOf(t *testing.T) {
	for _, s := range []*logServer{{hidden: true}, {forget: true}} {
		synctest.Test(t, func(t *testing.T) {
			s.ends = map[string]uint64{"a": 1}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			waited := 0
			tail := tailStream(t, s, client.StreamTailOptions{OnWait: func() { waited++ }})
			for n := range uint64(3) {
				began := time.Now()
				if e, err := tail.Next(ctx); err != nil || e.Number != n+1 || e.Group != "a" || time.Since(began) > 70*time.Second {
					t.Fatalf("after %v: %+v, %v", time.Since(began), e, err)
				}
				s.ends["a"]++
			}
			if waited == 0 {
				t.Error("the tail does not say that it waits")
			}
		})
	}
}

func TestABusyGroupDoesNotKeepATailFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &logServer{ends: map[string]uint64{"busy": 1, "other": 1}}
		s.page = func(group string) uint64 {
			if group == "busy" {
				s.ends["busy"]++
			}
			return 1
		}
		tail := tailStream(t, s, client.StreamTailOptions{NoFollow: true})
		seen := map[string]bool{}
		for range 4 {
			e, err := tail.Next(t.Context())
			if errors.Is(err, client.ErrEnd) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			seen[e.Group] = true
		}
		if !seen["other"] || !seen["busy"] {
			t.Error(seen)
		}
	})
}

func TestATailOfAStreamGoesOnAfterExpiredEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &logServer{ends: map[string]uint64{"a": 3}, refuse: func(_, after string) bool { return after == offset(1) }}
		tail := tailStream(t, s, client.StreamTailOptions{After: map[string]string{"a": offset(1)}, NoFollow: true})
		_, err := tail.Next(t.Context())
		if expired, ok := errors.AsType[*client.ExpiredError](err); !ok || expired.First != 3 || !strings.Contains(err.Error(), "group a") {
			t.Fatal(err)
		}
		if e, err := tail.Next(t.Context()); err != nil || e.Number != 3 || tail.Offsets()["a"] != e.Offset {
			t.Errorf("%+v, %v", e, err)
		}
		if _, err := tail.Next(t.Context()); !errors.Is(err, client.ErrEnd) {
			t.Error(err)
		}
	})
}

func TestATailOfAStreamFromNowHasOnlyWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &logServer{ends: map[string]uint64{"a": 5}}
		tail := tailStream(t, s, client.StreamTailOptions{FromNow: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := tail.Next(ctx); ctx.Err() == nil {
			t.Fatal(err)
		}
		s.ends["a"], s.ends["new"] = 6, 1
		got := map[string]uint64{}
		for range 2 {
			e, err := tail.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got[e.Group] = e.Number
		}
		if got["a"] != 6 || got["new"] != 1 {
			t.Error(got)
		}
	})
}

// TestAGroupThatTheServerHasLostEntriesOfIsSetAside restores one of three groups from an older
// copy.
func TestAGroupThatTheServerHasLostEntriesOfIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &logServer{ends: map[string]uint64{"a": 2, "b": 1, "c": 1}, hidden: true}
		tail := tailStream(t, s, client.StreamTailOptions{After: map[string]string{"a": offset(5)}})
		_, err := tail.Next(t.Context())
		ahead, ok := errors.AsType[*client.AheadError](err)
		if !ok || ahead.Group != "a" || ahead.Next != offset(2) || !errors.Is(err, client.Ahead) {
			t.Fatal(err)
		}
		for _, group := range []string{"b", "c"} {
			if e, err := tail.Next(t.Context()); err != nil || e.Group != group {
				t.Fatalf("%+v, %v", e, err)
			}
		}
		// all groups are listed again meanwhile, and the log is longer than the offset, with other
		// entries
		s.ends["a"], s.ends["c"] = 7, 2
		if e, err := tail.Next(t.Context()); err != nil || e.Group != "c" || e.Number != 2 {
			t.Fatalf("%+v, %v", e, err)
		}
		if got := slices.Index(s.asked[1:], "a"); got >= 0 || tail.Offsets()["a"] != offset(5) {
			t.Errorf("the group was asked for again: %v, %v", s.asked, tail.Offsets())
		}
		s.page = func(string) uint64 { return 2 }
		tail.Resume("a", ahead.Next)
		for n := uint64(3); n <= 7; n++ {
			if e, err := tail.Next(t.Context()); err != nil || e.Group != "a" || e.Number != n {
				t.Fatalf("%+v, %v", e, err)
			}
		}
	})
}
