package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestMessagesOfOneGroupAreSentInTheOrderOfTheFile(t *testing.T) {
	w := newWorld(t)
	var file strings.Builder
	for n := range 400 {
		switch n % 4 {
		case 0, 1:
			fmt.Fprintf(&file, `{"key":"%d","group":"g%d","body":%d}`+"\n", n, n%20, n)
		case 2:
			fmt.Fprintf(&file, `{"source":"s%d","sequence":%d,"body":%d}`+"\n", n%20, n+1, n)
		default:
			fmt.Fprintf(&file, `{"key":"%d","body":%d}`+"\n", n, n)
		}
	}
	if code := w.once(t.Context(), file.String(), "send", "orders", "--file", "-", "--concurrency", "16"); code != 0 {
		t.Fatalf("exit %d: %s", code, w.err.String())
	}
	last := map[string]int{}
	for _, x := range w.front.order {
		group, body, _ := strings.Cut(x, " ")
		n, err := strconv.Atoi(body)
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := last[group]; ok && before >= n {
			t.Errorf("%s: %d after %d", group, n, before)
		}
		last[group] = n
	}
	if len(w.front.order) != 400 {
		t.Errorf("%d messages arrived", len(w.front.order))
	}
}

func TestAFileIsRetriedUnderTheSameKeysUntilAllIsAcknowledged(t *testing.T) {
	w := newWorld(t)
	var tries atomic.Int32
	// The first requests are taken, and their answers lost.
	w.front.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if tries.Add(1) <= 2 {
			w.front.takeAll(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		return false
	}
	if code := w.once(t.Context(), "", "send", "orders", "--file", "testdata/files/good.jsonl", "--json"); code != 0 {
		t.Fatalf("exit %d: %s", code, w.err.String())
	}
	if len(w.front.taken) != 5 || len(w.front.order) != 5 || !strings.Contains(w.out.String(), `"unacknowledged": 0`) {
		t.Errorf("taken: %v; said %s", w.front.taken, w.out.String())
	}
	if !regexp.MustCompile(`not acknowledged yet, trying again in [0-9.]+m?s: `).MatchString(w.err.String()) {
		t.Errorf("does not say that it waits, and how long: %q", w.err.String())
	}
}

func TestAFileIsSentInBatches(t *testing.T) {
	w := newWorld(t)
	var file strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&file, `{"key":"%d","group":"g","body":%d}`+"\n", n, n)
	}
	var tries atomic.Int32
	w.front.before = func(http.ResponseWriter, *http.Request) bool {
		if tries.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	path := filepath.Join(t.TempDir(), "m.jsonl")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := w.once(t.Context(), "", "send", "orders", "--file", path, "--json"); code != 0 {
		t.Fatalf("exit %d: %s", code, w.err.String())
	}
	if !strings.Contains(strings.Join(strings.Fields(w.out.String()), ""), `"lines":1000,"accepted":1000,"replayed":0,"failed":0,"unacknowledged":0`) {
		t.Errorf("said %s", w.out.String())
	}
	if w.front.batches > 500 || len(w.front.order) != 1000 {
		t.Errorf("%d batches, %d messages", w.front.batches, len(w.front.order))
	}
	for n, x := range w.front.order {
		if x != fmt.Sprint("g ", n) {
			t.Fatalf("message %d is %s", n, x)
		}
	}
}

func TestAFileIsSentOneByOneToAServerThatTakesNoBatches(t *testing.T) {
	w := newWorld(t)
	w.front.old = true
	if code := w.once(t.Context(), "", "send", "orders", "--file", "testdata/files/good.jsonl"); code != 0 || len(w.front.taken) != 5 {
		t.Errorf("exit %d, %d messages: %s", code, len(w.front.taken), w.err.String())
	}
}

func TestABatchWithoutAnAnswerFromAOnceServerIsReportedAsUnknown(t *testing.T) {
	w := newWorld(t)
	w.front.before = func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusOK) // a login page
		return true
	}
	if code := w.once(t.Context(), "", "send", "orders", "--file", "testdata/files/good.jsonl"); code != exitAway || !strings.Contains(w.out.String(), "5 not acknowledged") {
		t.Errorf("exit %d: %s%s", code, w.out.String(), w.err.String())
	}
}

func TestAChangedFileIsAnotherFile(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "m.jsonl")
	for _, content := range []string{"{\"body\":1}\n{\"body\":2}\n", "{\"body\":1}\n{\"body\":3}\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if code := w.once(t.Context(), "", "send", "orders", "--file", path); code != 0 {
				t.Fatalf("exit %d: %s", code, w.err.String())
			}
		}
	}
	if len(w.front.taken) != 4 {
		t.Errorf("%d messages", len(w.front.taken))
	}
}

func TestAFileThatChangesWhileItIsSentIsReported(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "m.jsonl")
	// more lines than are read before the first request is answered: one request and one queue
	line := "{\"body\":\"" + strings.Repeat("x", 1<<10) + "\"}\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 2*(requestSize+queueDepth))), 0o600); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	w.front.before = func(http.ResponseWriter, *http.Request) bool {
		once.Do(func() {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = f.WriteString(line)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
		return false
	}
	if code := w.once(t.Context(), "", "send", "orders", "--file", path, "--concurrency", "1"); code != exitIncomplete ||
		!strings.Contains(w.err.String(), "the file changed while it was sent") {
		t.Errorf("exit %d: %s", code, w.err.String())
	}
}

func TestAnInterruptReportsTheAcknowledgedMessages(t *testing.T) {
	w := newWorld(t)
	w.front.old = true // so that each message has a request
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	w.front.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if n++; n == 3 {
			// a server notices that the caller has disconnected only when it has read the whole
			// body
			_, _ = io.Copy(io.Discard, r.Body)
			cancel()
			<-r.Context().Done()
			return true
		}
		return false
	}
	if code := w.once(ctx, "", "send", "orders", "--file", "testdata/files/good.jsonl", "--concurrency", "1"); code != exitIncomplete {
		t.Errorf("exit %d: %s", code, w.err.String())
	}
	if got := w.out.String(); got != "5 messages: 2 accepted, 0 replayed, 0 failed, 3 not acknowledged\n" {
		t.Errorf("said %q", got)
	}
}

func TestSendingAFileEndsAfterRetryFor(t *testing.T) {
	w := newWorld(t)
	w.front.old = true // so that each message has a request
	n := 0
	w.front.before = func(rw http.ResponseWriter, _ *http.Request) bool {
		if n++; n > 2 {
			refuse(rw, http.StatusServiceUnavailable, "unavailable")
			return true
		}
		return false
	}
	args := []string{"send", "orders", "--file", "testdata/files/good.jsonl", "--concurrency", "1", "--retry-for", "1ms"}
	if code := w.once(t.Context(), "", args...); code != exitIncomplete || !strings.Contains(w.out.String(), "2 accepted, 0 replayed, 0 failed, 3 not") {
		t.Errorf("exit %d: %s%s", code, w.out.String(), w.err.String())
	}
	w.front.taken = map[string]string{}
	if code := w.once(t.Context(), "", args...); code != exitAway {
		t.Errorf("nothing acknowledged: exit %d: %s%s", code, w.out.String(), w.err.String())
	}
}
