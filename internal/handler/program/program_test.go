package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/handler/handlertest"
	"github.com/effectively-once/once/internal/handler/program"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/concurrent"
)

// The test binary is also the program: as a shell can run it with arguments.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "handle" {
		handle(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// handle is a program that handles requests in one of several ways.
func handle(way string) {
	fmt.Fprintln(os.Stderr, "started", way, os.Getenv("ONCE_STREAM"))
	in := bufio.NewReader(os.Stdin)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		switch way {
		case "suite":
			answer, failed := handlertest.Answer(line)
			if failed != "" {
				text, _ := json.Marshal(map[string]string{"error": failed}) //nolint:errchkjson // strings
				answer = string(text)
			}
			fmt.Println(answer)
		case "count":
			fmt.Printf("{\"run\":%d}\n", n)
		case "die":
			if n == 2 {
				fmt.Print(`{"messages":[{"id"`)
				fmt.Fprint(os.Stderr, "Traceback:\nKeyError: \x1b[31mitem\n\n")
				os.Exit(3)
			}
			fmt.Println("{}")
		case "hang":
			if n == 2 {
				select {}
			}
			fmt.Printf("{\"run\":%d}\n", n)
		case "print":
			fmt.Println("got a request")
			fmt.Println("{}")
		case "nan":
			fmt.Println(`{"state":NaN}`)
		case "late":
			fmt.Println("{}")
			fmt.Println("and another line")
		case "shift": // the first request gets two answers, the second of them late
			var r struct{ Attempt string }
			_ = json.Unmarshal(line, &r)
			if n == 2 {
				r.Attempt = "1"
			}
			fmt.Printf("{\"messages\":[{\"id\":\"a\"}],\"attempt\":%q}\n", r.Attempt)
		case "large":
			fmt.Println(strings.Repeat("x", 10<<20))
		}
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.After(time.Minute); !holds(); runtime.Gosched() {
		select {
		case <-limit:
			t.Fatalf("after a minute still not: %s", what)
		default:
		}
	}
}

func open(t *testing.T, way string, o program.Options) *program.Program {
	t.Helper()
	o.Command = strconv.Quote(os.Args[0]) + " handle " + way
	o.Env = append(o.Env, "GORACE=atexit_sleep_ms=0") // it would wait for a second before it ends
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second // never, on a loaded machine
	}
	return start(t, o)
}

func start(t *testing.T, o program.Options) *program.Program {
	t.Helper()
	p, err := program.New(o)
	if err != nil {
		t.Fatal("the program must start:", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error("the program must end:", err)
		}
	})
	return p
}

func call(t *testing.T, p *program.Program) string {
	t.Helper()
	answer, err := p.Call(t.Context(), "x", []byte(`{"stream":"s"}`))
	if err != nil {
		return err.Error()
	}
	return string(answer)
}

func TestAProgramPassesTheSuite(t *testing.T) {
	handlertest.Run(t, open(t, "suite", program.Options{}))
}

func TestAProgramAnswersOneRequestAfterTheOther(t *testing.T) {
	var stderr concurrent.Buffer
	p := open(t, "count", program.Options{Stderr: &stderr, Env: []string{"ONCE_STREAM=orders"}})
	answers := make(chan string, 20)
	for range cap(answers) {
		go func() { answers <- call(t, p) }()
	}
	got := map[string]bool{}
	for range cap(answers) {
		got[<-answers] = true
	}
	for i := range cap(answers) {
		if want := fmt.Sprintf(`{"run":%d}`, i+1); !got[want] {
			t.Errorf("the answers are %v, want each request answered once by one program: %s is missing", got, want)
		}
	}
	const want = "started count orders"
	until(t, "the standard error has "+want, func() bool { return strings.Contains(stderr.String(), want) })
}

func TestAProgramThatEndsIsStartedAgain(t *testing.T) {
	p := open(t, "die", program.Options{})
	want := []string{"{}", "the program of the handler ended before it answered: exit status 3; the last line of its standard error: KeyError: \\x1b[31mitem", "{}"}
	for i, want := range want {
		if got := call(t, p); got != want {
			t.Errorf("call %d returns %q, want %q", i+1, got, want)
		}
	}
}

func TestAProgramThatDoesNotAnswerIsKilledAndStartedAgain(t *testing.T) {
	p := open(t, "hang", program.Options{})
	want := []string{`{"run":1}`, "did not answer within 1ms, and was killed", `{"run":1}`}
	for i, want := range want {
		program.SetTimeout(p, []time.Duration{time.Minute, time.Millisecond, time.Minute}[i])
		if got := call(t, p); !strings.Contains(got, want) {
			t.Errorf("call %d returns %q, want %q", i+1, got, want)
		}
	}
}

func TestAnAnswerThatNobodyWaitsForIsDropped(t *testing.T) {
	p := open(t, "count", program.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // the turn may be taken although the context has ended
		if answer, err := p.Call(ctx, "x", []byte("{}")); err == nil {
			t.Logf("answered in time: %s", answer)
		}
	}
	last := call(t, p)
	var run struct{ Run int }
	if err := json.Unmarshal([]byte(last), &run); err != nil || run.Run < 1 {
		t.Errorf("the next call returns %q, want its own answer", last)
	}
	if again := call(t, p); again != fmt.Sprintf(`{"run":%d}`, run.Run+1) {
		t.Errorf("the call after it returns %q, want the answer after %q", again, last)
	}
}

func TestOutputThatIsNoAnswerIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for way, want := range map[string]string{
		"print": `wrote "got a request" to its standard output, which is only for answers`,
		"nan":   "begins like an answer, but is not JSON: invalid character 'N'",
		"large": "has more than 6291456 bytes",
	} {
		if got := call(t, open(t, way, program.Options{})); !strings.Contains(got, want) {
			t.Errorf("%s: the call returns %q, want %q", way, got, want)
		}
	}
	if got := call(t, start(t, program.Options{Command: "no-such-program-anywhere"})); !strings.Contains(got, "the shell can't run it") {
		t.Errorf("the call returns %q, want that there is no such program", got)
	}
}

func TestALineAfterAnAnswerStartsTheProgramAgain(t *testing.T) {
	p := open(t, "late", program.Options{})
	for i := range 3 {
		if got := call(t, p); got != "{}" && !strings.Contains(got, "and another line") {
			t.Errorf("call %d returns %q, want the answer, or an error about the other line", i+1, got)
		}
	}
}

func TestAProgramIsStartedAgainWhenItsFilesChange(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := "while read -r line; do echo \"{\\\"n\\\":" // a shell script: sh is everywhere
	write("handler.sh", script+"1}\"; done")
	write("lib.sh", "")
	p := start(t, program.Options{Command: "sh " + filepath.Join(dir, "handler.sh"), Timeout: 30 * time.Second})
	if got := call(t, p); got != `{"n":1}` {
		t.Fatalf("the first answer is %q, want that of the script", got)
	}
	write("handler.sh", script+"22}\"; done")
	if got := call(t, p); got != `{"n":22}` {
		t.Errorf("the answer is %q, want that of the changed script", got)
	}
	write("handler.sh", script+"$$}\"; done") // the process id
	first := call(t, p)
	if again := call(t, p); again != first {
		t.Errorf("the program is started again without a change: %s, then %s", first, again)
	}
	write("lib.sh", "changed")
	if again := call(t, p); again == first || !strings.HasPrefix(again, `{"n":`) {
		t.Errorf("the answer is %s after %s, want that of another process after another file of its folder has changed", again, first)
	}
}

func TestTheProcessesOfAProgramAreKilledWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	p := start(t, program.Options{Command: "sleep 1000 & echo $! > " + path + "; cat > /dev/null; wait", Timeout: time.Millisecond})
	var pid string
	until(t, "the program has started another", func() bool {
		text, _ := os.ReadFile(path)
		line, _, whole := strings.Cut(string(text), "\n")
		pid = line
		return whole
	})
	call(t, p)
	until(t, "the process that the program has started is killed", func() bool {
		text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		return err != nil || strings.Contains(string(text), ") Z ")
	})
}

// A program writes a second answer to its first request after it has read the second one.
func TestAnAnswerToAnotherRequestIsRefusedAndStartsTheProgramAgain(t *testing.T) {
	p := open(t, "shift", program.Options{})
	for i, stale := range []bool{false, true, false} {
		attempt := strconv.Itoa(i + 1)
		request := fmt.Appendf(nil, `{"attempt":%q,"messages":[{"id":"a"}]}`, attempt)
		answer, err := p.Call(t.Context(), attempt, request)
		if err != nil {
			t.Fatal(err)
		}
		if err := handler.CheckAnswer(request, answer); (err != nil) != stale {
			t.Errorf("call %d: %s is checked with %v, want it refused: %v", i+1, answer, err, stale)
		}
	}
	if got := call(t, p); !strings.Contains(got, `"attempt":"1"`) {
		t.Errorf("the call is answered with %s, want the second answer of a program that was started again", got)
	}
}

// A reload closes the program that it replaces while messages are still on their way to it.
func TestACallAfterCloseIsNotATry(t *testing.T) {
	p := start(t, program.Options{Command: "cat"})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Call(t.Context(), "a", []byte("{}")); !errors.Is(err, record.ErrUntried) {
		t.Errorf("the call failed with %v, want one that says that it was not tried", err)
	}
}
