package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"io"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A use is a place of a test that depends on the clock of the machine, or on a port of it.
type use struct {
	file string
	line int
	// what names the function, such as time.Sleep, and kind is one of the kinds below.
	what, kind string
	// directive is "real time", "virtual time" or "fixed port" if a comment allows the use, with
	// its reason.
	directive, reason string
}

// The kinds of uses. Those with a number in the budgets are counted if they are kept in real time;
// virtual counts those of both kinds that a comment says to be in virtual time.
const (
	sleeps  = "real-time-sleeps"
	elapsed = "real-time-elapsed"
	virtual = "virtual-time"
	port    = "fixed-port"
	unused  = "unused"
)

// The directives that allow a use.
const (
	realTime    = "real time"
	virtualTime = "virtual time"
	fixedPort   = "fixed port"
)

type directive struct {
	kind, reason string
	line         int
	used         bool
}

func defineRealtime(flags *flag.FlagSet) action {
	list := flags.Bool("list", false, "print the uses that are kept, with their reasons")
	return func(_ context.Context, t *tree, out, _ io.Writer, _ []string) error {
		uses, err := t.uses()
		if err != nil {
			return err
		}
		if *list {
			printKept(out, uses)
		}
		wrong := 0
		for _, u := range uses {
			if text := u.problem(); text != "" {
				wrong++
				_, _ = fmt.Fprintf(out, "%s:%d: %s\n", u.file, u.line, text)
			}
		}
		if wrong > 0 {
			err = fmt.Errorf("%d places of tests depend on real time or on a port, and do not say why", wrong)
		}
		text, failed := t.read(budgetsFile)
		if failed == nil {
			_, failed = compare(io.Discard, text, kept(uses), true)
		}
		return errors.Join(err, failed)
	}
}

// problem says what to do about a use, or nothing if it is allowed.
func (u *use) problem() string {
	switch {
	case u.kind == unused:
		return fmt.Sprintf("nothing here needs %q: remove the comment", u.directive)
	case u.directive != "" && u.reason == "":
		return fmt.Sprintf("say why: // %s: REASON", u.directive)
	case u.directive != "":
		return ""
	case u.kind == port:
		return u.what + " may be taken by another program: listen on 127.0.0.1:0, or write // fixed port: REASON if nothing listens"
	case u.kind == sleeps:
		return u.what + " waits in real time: use testing/synctest, or wait for the event; if it can't be otherwise, write // real time: REASON"
	}
	return u.what + " depends on real time: use testing/synctest, or assert the order of events; if it can't be otherwise, write // real time: REASON"
}

// kept returns how many uses have a reason, by kind.
func kept(uses []use) numbers {
	n := numbers{sleeps: 0, elapsed: 0, virtual: 0}
	for _, u := range uses {
		switch {
		case u.kind == unused:
		case u.directive == realTime:
			n[u.kind]++
		case u.directive == virtualTime:
			n[virtual]++
		}
	}
	return n
}

func printKept(out io.Writer, uses []use) {
	for _, u := range uses {
		if u.directive != "" && u.kind != unused {
			_, _ = fmt.Fprintf(out, "%s:%d: %s, %s: %s\n", u.file, u.line, u.what, u.directive, u.reason)
		}
	}
	n := kept(uses)
	_, _ = fmt.Fprintf(out, "%.0f sleeps and %.0f uses of elapsed time are kept in real time, and %.0f of both in virtual time\n", n[sleeps], n[elapsed], n[virtual])
}

func keptRealTime(_ context.Context, t *tree) (numbers, error) {
	uses, err := t.uses()
	return kept(uses), err
}

// uses returns those of all tests and packages for tests, oncetest among them.
func (t *tree) uses() ([]use, error) {
	s, err := t.checked()
	if err != nil {
		return nil, err
	}
	var all []use
	for name, file := range s.parsed {
		if readsTime(name) {
			all = append(all, usesOf(s, name, file)...)
		}
	}
	slices.SortFunc(all, func(a, b use) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.what, b.what))
	})
	return all, nil
}

// readsTime reports whether the time that a file needs is that of tests.
func readsTime(name string) bool { return forTests(name) || path.Dir(name) == "oncetest" }

// A reader finds the uses of one file.
type reader struct {
	*source
	name       string
	function   string             // at the top, in which it is
	directives map[int]*directive // by the line to which they apply
	uses       []use
}

func usesOf(s *source, name string, file *ast.File) []use {
	r := &reader{source: s, name: name, directives: s.directivesOf(file, s.texts[name])}
	for _, decl := range file.Decls {
		r.function = ""
		if f, ok := decl.(*ast.FuncDecl); ok {
			r.function = f.Name.Name
		}
		r.walk(decl)
	}
	for _, d := range r.directives {
		if !d.used {
			r.uses = append(r.uses, use{file: name, line: d.line, kind: unused, directive: d.kind})
		}
	}
	return r.uses
}

// directivesOf returns the directives of a file by the lines to which they apply: the line of a
// comment behind code, and the line after a comment of its own.
func (s *source) directivesOf(file *ast.File, text []byte) map[int]*directive {
	start := regexp.MustCompile(`^// (` + realTime + `|` + virtualTime + `|` + fixedPort + `): *(.*)$`)
	found := map[int]*directive{}
	for _, group := range file.Comments {
		var d *directive
		for _, c := range group.List {
			if m := start.FindStringSubmatch(c.Text); m != nil {
				d = &directive{kind: m[1], reason: m[2], line: s.files.Position(c.Pos()).Line}
			} else if d != nil {
				d.reason += strings.TrimPrefix(c.Text, "//")
			}
		}
		if d != nil {
			begin, end := s.files.Position(group.Pos()), s.files.Position(group.End()).Line
			if len(bytes.TrimSpace(text[begin.Offset-begin.Column+1:begin.Offset])) == 0 {
				end++
			}
			found[end] = d
		}
	}
	return found
}

// walk looks at a node and all in it, but for functions that run in virtual time.
func (r *reader) walk(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if r.is(n.Fun, "testing/synctest", "Test") || r.bubbles[r.object(n.Fun)] {
				return false
			}
			r.call(n)
			r.list(n.Args)
		case *ast.CompositeLit:
			r.list(n.Elts)
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Addr" || key.Name == "Listen") {
				r.address(n.Value)
			}
		case *ast.BasicLit:
			r.script(n, r.text(n))
		case *ast.SelectorExpr:
			switch {
			case r.is(n, "time", "Sleep"):
				r.add(n, "time.Sleep", sleeps)
			case r.is(n, "time", "Since", "Until"):
				r.add(n, "time."+n.Sel.Name, elapsed)
			}
		}
		return true
	})
}

// short is a duration that may end before the work that a test waits for.
const short = 10e9

func isShort(d float64, known bool) bool { return known && 0 < d && d < short }

func (r *reader) call(c *ast.CallExpr) {
	f, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	brief := func(i int) bool { return i < len(c.Args) && isShort(r.duration(c.Args[i])) }
	soon := func(i int) bool { return i < len(c.Args) && isShort(r.ahead(c.Args[i])) }
	const limit = " of less than 10 s"
	switch name := f.Sel.Name; {
	case r.is(f, "time", "After", "NewTimer", "Tick", "NewTicker", "AfterFunc") && brief(0):
		r.add(f, "time."+name+limit, sleeps)
	case r.is(f, "context", "WithTimeout", "WithTimeoutCause") && brief(1), r.is(f, "context", "WithDeadline", "WithDeadlineCause") && soon(1):
		r.add(f, "context."+name+limit, elapsed)
	case strings.HasSuffix(name, "Deadline") && soon(0), strings.HasPrefix(name, "Eventually") && (brief(1) || brief(2)):
		r.add(f, name+limit, elapsed)
	case slices.Contains([]string{"Sub", "Before", "After", "Compare"}, name) && len(c.Args) == 1 && r.measures(name, f.X, c.Args[0]):
		r.add(f, "Time."+name, elapsed)
	case strings.HasPrefix(name, "Listen"):
		for _, a := range c.Args {
			r.address(a)
		}
	}
}

// measures reports whether a method compares two readings of the clock. A limit that only ends a
// hang is far from the other reading.
func (r *reader) measures(method string, x, y ast.Expr) bool {
	a, first := r.ahead(x)
	b, second := r.ahead(y)
	if first && second {
		return math.Abs(a-b) < short
	}
	return method == "Sub" && (r.isNow(x) || r.isNow(y))
}

func (r *reader) add(n ast.Node, what, kind string) {
	u := use{file: r.name, line: r.files.Position(n.Pos()).Line, what: what, kind: kind}
	if d := r.directives[u.line]; d != nil && (kind == port) == (d.kind == fixedPort) {
		d.used = true
		u.directive, u.reason = d.kind, d.reason
	}
	r.uses = append(r.uses, u)
}

// list looks in arguments, or in elements of a list, for the flag of an address and for the command
// sleep.
func (r *reader) list(list []ast.Expr) {
	before := ""
	for _, x := range list {
		text := r.text(x)
		if address, found := strings.CutPrefix(strings.TrimLeft(text, "-"), "listen="); found && text[0] == '-' && isFixed(address) {
			r.add(x, "port "+address, port)
		}
		switch strings.TrimLeft(before, "-") {
		case "listen":
			r.address(x)
		case "sleep":
			r.script(x, "sleep "+text)
		}
		before = text
	}
}

// script adds a use if a text has a command that sleeps. A longer one is killed.
func (r *reader) script(x ast.Expr, text string) {
	if m := regexp.MustCompile(`\bsleep (\d*\.?\d+)`).FindStringSubmatch(text); m != nil {
		if seconds, err := strconv.ParseFloat(m[1], 64); err == nil && isShort(seconds*1e9, true) {
			r.add(x, "the command sleep", sleeps)
		}
	}
}

// address adds a use if an expression is a fixed address. An example only compiles.
func (r *reader) address(x ast.Expr) {
	if text := r.text(x); isFixed(text) && !strings.HasPrefix(r.function, "Example") {
		r.add(x, "port "+text, port)
	}
}

// isFixed reports whether a text is an address of this machine with a port that is not 0.
func isFixed(text string) bool {
	m := regexp.MustCompile(`^(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\])?:(\d+)$`).FindStringSubmatch(text)
	return m != nil && m[1] != "0"
}

// text returns the value of a constant string, or nothing.
func (r *reader) text(x ast.Expr) string {
	if v := r.info.Types[x].Value; v != nil && v.Kind() == constant.String {
		return constant.StringVal(v)
	}
	return ""
}
