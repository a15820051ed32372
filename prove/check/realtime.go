package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"path"
	"slices"
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

// The kinds of uses. Those with a number in the budgets are counted if they are kept.
const (
	sleeps  = "real-time-sleeps"
	elapsed = "real-time-elapsed"
	port    = "fixed-port"
	unused  = "unused"
)

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

// kept returns how many uses of real time have a reason, by kind.
func kept(uses []use) numbers {
	n := numbers{sleeps: 0, elapsed: 0}
	for _, u := range uses {
		if u.directive == realTime && u.kind != unused {
			n[u.kind]++
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
	_, _ = fmt.Fprintf(out, "%.0f sleeps and %.0f uses of elapsed time are kept in real time\n", n[sleeps], n[elapsed])
}

func keptRealTime(_ context.Context, t *tree) (numbers, error) {
	uses, err := t.uses()
	return kept(uses), err
}

// uses returns those of all tests and packages for tests, oncetest among them.
func (t *tree) uses() ([]use, error) {
	files := token.NewFileSet()
	packages, texts := map[string]map[string]*ast.File{}, map[string][]byte{}
	err := t.each(".go", func(name string, text []byte) error {
		file, err := parser.ParseFile(files, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		folder := path.Dir(name)
		if packages[folder] == nil {
			packages[folder] = map[string]*ast.File{}
		}
		packages[folder][name], texts[name] = file, text
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []use
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		constants := constants{}
		for _, file := range packages[folder] {
			constants.add(file.Decls, importsOf(file))
		}
		for name, file := range packages[folder] {
			if forTests(name) || path.Base(folder) == "oncetest" {
				all = append(all, usesOf(files, name, file, texts[name], constants)...)
			}
		}
	}
	slices.SortFunc(all, func(a, b use) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.what, b.what))
	})
	return all, nil
}

// A reader finds the uses of one file.
type reader struct {
	files      *token.FileSet
	name       string
	imports    map[string]string // by the name in the file
	constants  constants
	function   string             // at the top, in which it is
	directives map[int]*directive // by the line to which they apply
	uses       []use
}

func usesOf(files *token.FileSet, name string, file *ast.File, text []byte, constants constants) []use {
	r := &reader{files: files, name: name, imports: importsOf(file), directives: directivesOf(files, file, text)}
	for _, decl := range file.Decls {
		r.constants, r.function = constants.within(decl, r.imports), ""
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

// walk looks at a node and all in it, but for functions that run in virtual time.
func (r *reader) walk(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if r.is(n.Fun, "testing/synctest", "Test") {
				return false
			}
			r.call(n)
			r.addresses(n.Args)
		case *ast.CompositeLit:
			r.addresses(n.Elts)
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Addr" || key.Name == "Listen") {
				r.address(n.Value)
			}
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

func (r *reader) call(c *ast.CallExpr) {
	brief := func(i int) bool {
		if i >= len(c.Args) {
			return false
		}
		d, ok := r.constants.value(c.Args[i], r.imports)
		return ok && d < short
	}
	f, ok := c.Fun.(*ast.SelectorExpr)
	switch {
	case !ok:
	case r.is(f, "time", "After", "NewTimer", "Tick", "NewTicker", "AfterFunc") && brief(0):
		r.add(f, "time."+f.Sel.Name+" of less than 10 s", sleeps)
	case r.is(f, "context", "WithTimeout", "WithTimeoutCause") && brief(1):
		r.add(f, "context."+f.Sel.Name+" of less than 10 s", elapsed)
	case f.Sel.Name == "Sub":
		if now, ok := f.X.(*ast.CallExpr); ok && r.is(now.Fun, "time", "Now") {
			r.add(now, "time.Now().Sub", elapsed)
		}
	case strings.HasPrefix(f.Sel.Name, "Listen"):
		for _, a := range c.Args {
			r.address(a)
		}
	}
}

// is reports whether an expression is one of the functions of a package.
func (r *reader) is(x ast.Expr, pkg string, names ...string) bool {
	s, ok := x.(*ast.SelectorExpr)
	if !ok || !slices.Contains(names, s.Sel.Name) {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && r.imports[id.Name] == pkg
}

func (r *reader) add(n ast.Node, what, kind string) {
	u := use{file: r.name, line: r.files.Position(n.Pos()).Line, what: what, kind: kind}
	if d := r.directives[u.line]; d != nil && (kind == port) == (d.kind == fixedPort) {
		d.used = true
		u.directive, u.reason = d.kind, d.reason
	}
	r.uses = append(r.uses, u)
}
