package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// problemsOf returns the problems of files, as "file:line: function" or with the whole text of
// another problem.
func problemsOf(t *testing.T, files map[string]string) string {
	t.Helper()
	uses, err := planted(t, files).uses()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, u := range uses {
		text := u.problem()
		for _, mark := range []string{" waits in", " depends on", " may be"} {
			text, _, _ = strings.Cut(text, mark)
		}
		if text != "" {
			all = append(all, fmt.Sprintf("%s:%d: %s", u.file, u.line, text))
		}
	}
	return strings.Join(all, "; ")
}

// body is a test file with these lines in a function, the first of which is line 15.
func body(lines ...string) string {
	return `package x

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	clock "time"
)

var _, _, _, _ = context.Background, net.Listen, http.Get, synctest.Test

func TestX(t *testing.T) {
` + strings.Join(lines, "\n") + "\n}\n"
}

func TestAPlantedUseIsFound(t *testing.T) {
	for _, c := range []struct {
		name, lines, want string
	}{
		{"a sleep", "clock.Sleep(1)", "x_test.go:15: time.Sleep"},
		{"a long sleep", "clock.Sleep(clock.Minute)", "x_test.go:15: time.Sleep"},
		{"a sleep as a value", "pause := clock.Sleep\n\tpause(1)", "x_test.go:15: time.Sleep"},
		{"another sleep", "time.Sleep(1)", ""},
		{"elapsed", "a, b := clock.Since(start), clock.Until(end)", "x_test.go:15: time.Since; x_test.go:15: time.Until"},
		{"a difference", "d := clock.Now().Sub(start)", "x_test.go:15: Time.Sub"},
		{"a difference to now", "d := end.Sub(clock.Now())", "x_test.go:15: Time.Sub"},
		{"a difference of others", "d := end.Sub(start)", ""},
		{"a difference of two readings", "start := clock.Now()\n\tend := clock.Now()\n\tend.Sub(start)", "x_test.go:17: Time.Sub"},
		{"a reading in a field", "s := struct{ at clock.Time }{at: clock.Now()}\n\tif clock.Now().After(s.at) {}", "x_test.go:16: Time.After"},
		{"an order", "start := clock.Now()\n\tif clock.Now().Before(start.Add(clock.Second)) {}", "x_test.go:16: Time.Before"},
		{"a comparison", "start := clock.Now()\n\tstart.Add(1).Compare(clock.Now())", "x_test.go:16: Time.Compare"},
		{"a loop with a limit", "for end := clock.Now().Add(clock.Second); clock.Now().Before(end); {}", "x_test.go:15: Time.Before"},
		{"a loop with the limit of a hang", "for end := clock.Now().Add(clock.Minute); clock.Now().Before(end); {}", ""},
		{"a stamp", "before := clock.Now()\n\tif at.Before(before) || at.After(clock.Now()) {}", ""},
		{"a moment of a test", "now := clock.Now()\n\tif at.Equal(now.Add(1)) {}", ""},
		{"a short wait", "<-clock.After(50*clock.Millisecond)", "x_test.go:15: time.After of less than 10 s"},
		{"a number", "<-clock.After(1e9)", "x_test.go:15: time.After of less than 10 s"},
		{"a conversion", "<-clock.After(clock.Duration(3) * clock.Second)", "x_test.go:15: time.After of less than 10 s"},
		{"a limit of a hang", "<-clock.After(30*clock.Second)", ""},
		{"ten seconds", "<-clock.After(10*clock.Second)", ""},
		{"an unknown variable", "<-clock.After(wait)", ""},
		{"a variable", "wait := 50 * clock.Millisecond\n\t<-clock.After(wait)", "x_test.go:16: time.After of less than 10 s"},
		{"a variable that changes", "wait := clock.Minute\n\twait = clock.Second\n\t<-clock.After(2 * wait)", "x_test.go:17: time.After of less than 10 s"},
		{"a variable of another block", "{ wait := clock.Second; _ = wait }\n\twait := clock.Minute\n\t<-clock.After(wait)", ""},
		{"a parameter", "hold := func(d clock.Duration) { <-clock.After(d) }\n\thold(clock.Second)", "x_test.go:15: time.After of less than 10 s"},
		{"a row of a table", "for _, c := range []struct{ d clock.Duration }{{-1}, {clock.Second}} {\n\t\tcontext.WithTimeout(ctx, c.d)\n\t}", "x_test.go:16: context.WithTimeout of less than 10 s"},
		{"a row with names", "for _, c := range []struct{ d clock.Duration }{{d: 1}} {\n\t\tcontext.WithTimeout(ctx, c.d)\n\t}", "x_test.go:16: context.WithTimeout of less than 10 s"},
		{"a list", "for _, d := range []clock.Duration{clock.Second} {\n\t\t<-clock.After(d)\n\t}", "x_test.go:16: time.After of less than 10 s"},
		{"a deadline", "context.WithDeadline(ctx, clock.Now().Add(50*clock.Millisecond))", "x_test.go:15: context.WithDeadline of less than 10 s"},
		{"a deadline in a variable", "now := clock.Now()\n\tend := now.Add(1)\n\tcontext.WithDeadline(ctx, end)", "x_test.go:17: context.WithDeadline of less than 10 s"},
		{"a deadline of a connection", "c.SetReadDeadline(clock.Now().Add(clock.Second))", "x_test.go:15: SetReadDeadline of less than 10 s"},
		{"a deadline of a minute", "context.WithDeadline(ctx, clock.Now().Add(clock.Minute))", ""},
		{"contexts that have ended", "context.WithDeadline(ctx, clock.Now())\n\tcontext.WithTimeout(ctx, -1)", ""},
		{"a poll", "wait := clock.Second\n\trequire.Eventually(t, ok, wait, 1)", "x_test.go:16: Eventually of less than 10 s"},
		{"a command", `exec.Command("sleep", "0.1").Run()`, "x_test.go:15: the command sleep"},
		{"a command in a script", `script := "echo up; sleep ` + `2"`, "x_test.go:15: the command sleep"},
		{"a command that is killed", `exec.Command("sleep", "1000").Start()`, ""},
		{"timers", "clock.NewTimer(1)\n\tclock.Tick(1)\n\tclock.AfterFunc(1, f)", "x_test.go:15: time.NewTimer of less than 10 s; x_test.go:16: time.Tick of less than 10 s; x_test.go:17: time.AfterFunc of less than 10 s"},
		{"a context", "context.WithTimeout(ctx, 9*clock.Second)", "x_test.go:15: context.WithTimeout of less than 10 s"},
		{"a context of a minute", "context.WithTimeout(ctx, clock.Minute)", ""},
		{"in a bubble", "synctest.Test(t, func(t *testing.T) {\n\tclock.Sleep(1)\n\tt.Run(\"a\", func(t *testing.T) { clock.Since(x) })\n\t})", ""},
		{"after a bubble", "synctest.Test(t, func(t *testing.T) { clock.Sleep(1) })\n\tclock.Sleep(1)", "x_test.go:16: time.Sleep"},
		{"a reason", "clock.Sleep(1) // real time: the disk decides", ""},
		{"a reason above", "// real time: the disk\n\t// decides\n\tclock.Sleep(1)", ""},
		{"a helper of bubbles", "// virtual time: only in bubbles\n\tclock.Sleep(1)", ""},
		{"no reason", "clock.Sleep(1) // real time:", "x_test.go:15: say why: // real time: REASON"},
		{"two lines above", "// real time: the disk\n\n\tclock.Sleep(1)", `x_test.go:15: nothing here needs "real time": remove the comment; x_test.go:17: time.Sleep`},
		{"the line before", "clock.Sleep(1) // real time: the disk\n\tclock.Sleep(1)", "x_test.go:16: time.Sleep"},
		{"a reason for nothing", "x++ // virtual time: only in bubbles", `x_test.go:15: nothing here needs "virtual time": remove the comment`},
		{"a port", `net.Listen("tcp", "127.0.0.1:9917")`, "x_test.go:15: port 127.0.0.1:9917"},
		{"a port of a server", `http.ListenAndServe(":8080", nil)`, "x_test.go:15: port :8080"},
		{"a field", `s := http.Server{Addr: "localhost:8080"}`, "x_test.go:15: port localhost:8080"},
		{"a flag", `start("dev", "--listen", ":8080")`, "x_test.go:15: port :8080"},
		{"a flag of a list", `args := []string{"dev", "-listen=127.0.0.1:8080"}`, "x_test.go:15: port 127.0.0.1:8080"},
		{"a constant port", "const at = \":8080\"\n\tnet.Listen(\"tcp\", at)", "x_test.go:16: port :8080"},
		{"any port", `net.Listen("tcp", "127.0.0.1:0")`, ""},
		{"a port to which nothing listens", `dial("127.0.0.1:8080")`, ""},
		{"a port with a reason", "// fixed port: the flag is refused\n\tstart(\"--listen\", \":8080\")", ""},
		{"a reason of another kind", "// real time: the disk\n\tstart(\"--listen\", \":8080\")", `x_test.go:15: nothing here needs "real time": remove the comment; x_test.go:16: port :8080`},
	} {
		t.Run(c.name, func(t *testing.T) {
			equal(t, "problems", problemsOf(t, map[string]string{"x_test.go": body(c.lines)}), c.want)
		})
	}
}

func TestConstantsOfThePackageAreKnown(t *testing.T) {
	files := map[string]string{
		"x.go":      "package x\n\nimport \"time\"\n\nconst (\n\tstep = 5 * time.Millisecond\n\twait = 4*step + time.Second\n\tlong = 2000 * wait\n\tloop = loop2\n\tloop2 = loop\n)\n",
		"x_test.go": body("<-clock.After(wait)", "<-clock.After(long)", "<-clock.After(loop)", "<-clock.After(unknown)"),
	}
	equal(t, "problems", problemsOf(t, files), "x_test.go:15: time.After of less than 10 s")
	files["x_test.go"] = body("const wait = clock.Minute", "<-clock.After(wait)")
	equal(t, "problems with a constant of the function", problemsOf(t, files), "")
}

func TestAFunctionThatCallsAnotherInABubbleIsKnown(t *testing.T) {
	in := body("play(t, func() { clock.Sleep(1) })", "clock.Sleep(1)", "real(t, func() { clock.Sleep(1) })") + `
func play(t *testing.T, f func()) { synctest.Test(t, func(t *testing.T) { f() }) }

func real(t *testing.T, f func()) { synctest.Test(t, func(t *testing.T) {}); f() }
`
	equal(t, "problems", problemsOf(t, map[string]string{"x_test.go": in}), "x_test.go:16: time.Sleep; x_test.go:17: time.Sleep")
}

func TestConstantsAndParametersOfOtherPackagesAreKnown(t *testing.T) {
	sleeper := "package sleeper\n\nimport \"time\"\n\nconst Step = time.Second\n\nfunc Wait(d time.Duration) { <-time.After(d) }\n"
	call := body("sleeper.Wait(2 * sleeper.Step)", "<-clock.After(sleeper.Step)")
	equal(t, "problems", problemsOf(t, map[string]string{
		"internal/testkit/sleeper/sleeper.go": sleeper,
		"y/x_test.go":                         strings.Replace(call, "import (", "import (\n\t\"github.com/effectively-once/once/internal/testkit/sleeper\"", 1),
	}), "internal/testkit/sleeper/sleeper.go:7: time.After of less than 10 s; y/x_test.go:17: time.After of less than 10 s")
}

func TestTestsAndTheirPackagesAreRead(t *testing.T) {
	sleep := body("clock.Sleep(1)")
	equal(t, "problems", problemsOf(t, map[string]string{
		"product.go":                    sleep,
		"latest/l.go":                   sleep,
		"oncetest/o.go":                 sleep,
		"internal/testkit/a/a.go":       sleep,
		"internal/dedup/storetest/s.go": sleep,
		"e2e/testdata/x_test.go":        sleep,
		"e2e/a_test.go":                 sleep,
	}), "e2e/a_test.go:15: time.Sleep; internal/dedup/storetest/s.go:15: time.Sleep; internal/testkit/a/a.go:15: time.Sleep; oncetest/o.go:15: time.Sleep")
}

func realtime(t *testing.T, tr *tree, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := run(t.Context(), append([]string{"realtime", "-root", tr.root}, args...), &out, io.Discard)
	return out.String(), err
}

func TestTheListHasTheReasonsAndTheTotals(t *testing.T) {
	tr := planted(t, map[string]string{
		budgetsFile: "real-time-sleeps: 1\nreal-time-elapsed: 1\nvirtual-time: 1\n",
		"x_test.go": body("// real time: the disk", "// decides", "clock.Sleep(1)", "clock.Since(x) // virtual time: in bubbles"),
	})
	out, err := realtime(t, tr, "-list")
	problem(t, err, "")
	equal(t, "list", out, "x_test.go:17: time.Sleep, real time: the disk decides\nx_test.go:18: time.Since, virtual time: in bubbles\n1 sleeps and 0 uses of elapsed time are kept in real time, and 1 of both in virtual time\n")
	write(t, tr.root, "y_test.go", body("clock.Sleep(1) // real time: the network"))
	_, err = realtime(t, reopened(t, tr.root))
	problem(t, err, `realtime: real-time-sleeps: 2, 1 above the budget of 1: `+advice("1"))
	write(t, tr.root, "y_test.go", body("clock.Sleep(1) // virtual time: it is not"))
	_, err = realtime(t, reopened(t, tr.root))
	problem(t, err, `realtime: virtual-time: 2, 1 above the budget of 1: `+advice("1"))
	write(t, tr.root, "y_test.go", body("clock.Sleep(1)"))
	out, err = realtime(t, tr)
	problem(t, err, "realtime: 1 places of tests depend on real time or on a port, and do not say why")
	equal(t, "output", out, "y_test.go:15: time.Sleep waits in real time: use testing/synctest, or wait for the event; if it can't be otherwise, write // real time: REASON\n")
}
