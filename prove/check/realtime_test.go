package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
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
		{"a difference", "d := clock.Now().Sub(start)", "x_test.go:15: time.Now().Sub"},
		{"a difference of others", "d := end.Sub(start)", ""},
		{"a short wait", "<-clock.After(50*clock.Millisecond)", "x_test.go:15: time.After of less than 10 s"},
		{"a number", "<-clock.After(1e9)", "x_test.go:15: time.After of less than 10 s"},
		{"a conversion", "<-clock.After(clock.Duration(3) * clock.Second)", "x_test.go:15: time.After of less than 10 s"},
		{"a limit of a hang", "<-clock.After(30*clock.Second)", ""},
		{"ten seconds", "<-clock.After(10*clock.Second)", ""},
		{"a variable", "<-clock.After(wait)", ""},
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

func TestTestsAndTheirPackagesAreRead(t *testing.T) {
	sleep := body("clock.Sleep(1)")
	equal(t, "problems", problemsOf(t, map[string]string{
		"product.go":                sleep,
		"oncetest/o.go":             sleep,
		"internal/testkit/a/a.go":   sleep,
		"internal/x/storetest/s.go": sleep,
		"e2e/testdata/x_test.go":    sleep,
		"e2e/a_test.go":             sleep,
	}), "e2e/a_test.go:15: time.Sleep; internal/testkit/a/a.go:15: time.Sleep; internal/x/storetest/s.go:15: time.Sleep; oncetest/o.go:15: time.Sleep")
}

func realtime(t *testing.T, tr *tree, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := run(t.Context(), append([]string{"realtime", "-root", tr.root}, args...), &out, io.Discard)
	return out.String(), err
}

func TestTheListHasTheReasonsAndTheTotals(t *testing.T) {
	tr := planted(t, map[string]string{
		budgetsFile: "real-time-sleeps: 1\nreal-time-elapsed: 1\n",
		"x_test.go": body("// real time: the disk", "// decides", "clock.Sleep(1)", "clock.Since(x) // virtual time: in bubbles"),
	})
	out, err := realtime(t, tr, "-list")
	problem(t, err, "")
	equal(t, "list", out, "x_test.go:17: time.Sleep, real time: the disk decides\nx_test.go:18: time.Since, virtual time: in bubbles\n1 sleeps and 0 uses of elapsed time are kept in real time\n")
	write(t, tr.root, "y_test.go", body("clock.Sleep(1) // real time: the network"))
	_, err = realtime(t, reopened(t, tr.root))
	problem(t, err, "realtime: real-time-sleeps: 2, 1 above the budget of 1")
	write(t, tr.root, "y_test.go", body("clock.Sleep(1)"))
	out, err = realtime(t, tr)
	problem(t, err, "realtime: 1 places of tests depend on real time or on a port, and do not say why")
	equal(t, "output", out, "y_test.go:15: time.Sleep waits in real time: use testing/synctest, or wait for the event; if it can't be otherwise, write // real time: REASON\n")
}

const timed = `{"Action":"start","Package":"github.com/effectively-once/once/internal/x"}
# a line of the compiler
{"Action":"run","Package":"github.com/effectively-once/once/internal/x","Test":"TestKill"}
{"Action":"pass","Package":"github.com/effectively-once/once/internal/x","Test":"TestKill/a","Elapsed":3}
{"Action":"pass","Package":"github.com/effectively-once/once/internal/x","Test":"TestKill","Elapsed":3.04}
{"Action":"pass","Package":"github.com/effectively-once/once/internal/x","Test":"TestFast","Elapsed":1}
{"Action":"fail","Package":"github.com/effectively-once/once","Test":"TestNew","Elapsed":7.5}
{"Action":"pass","Package":"github.com/effectively-once/once/internal/x","Elapsed":4}
`

func TestSlowTestsHaveTheirReasons(t *testing.T) {
	tr := planted(t, map[string]string{
		slowFile:    "- {packages: [internal/x], tests: ^TestKill$, reason: it kills programs}\n- {packages: [internal/other], tests: X, reason: not part of this input}\n",
		"test.json": timed,
	})
	slow := func() (string, error) {
		var out strings.Builder
		err := run(t.Context(), []string{"slow", "-limit", "2s", "-root", tr.root, filepath.Join(tr.root, "test.json")}, &out, io.Discard)
		return out.String(), err
	}
	out, err := slow()
	problem(t, err, "")
	equal(t, "output", out, "    7.5 s  . TestNew: not in prove/check/slow.yaml\n    3.0 s  internal/x TestKill: it kills programs\n3 tests, of which 1 took more than 2s and are not listed\n")
	write(t, tr.root, slowFile, "- {packages: [internal/x], tests: ^TestGone$, reason: it kills programs}\n")
	_, err = slow()
	problem(t, err, "slow: prove/check/slow.yaml: internal/x has no test that matches ^TestGone$")
	write(t, tr.root, slowFile, "- {packages: [internal/x], tests: ^TestGone$}\n")
	_, err = slow()
	problem(t, err, "slow: prove/check/slow.yaml: entry 1 needs packages, tests and reason")
}

func TestTheListOfSlowTestsIsValid(t *testing.T) {
	text, err := os.ReadFile("slow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := parseSlow(text)
	if err != nil || len(entries) == 0 {
		t.Fatal(len(entries), err)
	}
	tr, _ := repository(t)
	for _, e := range entries {
		for _, folder := range e.Packages {
			if !slices.ContainsFunc(tr.files, func(name string) bool { return path.Dir(name) == folder && strings.HasSuffix(name, "_test.go") }) {
				t.Errorf("%s has no tests", folder)
			}
		}
	}
}
