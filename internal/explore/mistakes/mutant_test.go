package mistakes

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A removal takes one condition out of the source while its number is set in the environment of the tests: all of a package are compiled in one go.
type removal struct {
	name string
	edit []edit
}

// An edit inserts text into a file.
type edit struct {
	file string
	at   int
	text string
}

// switchedOff is the name of the function that the added file declares.
const switchedOff = "conditionRemoved"

// added is the file that a package gets: it says which condition is removed.
const added = `package %s

import (
	"os"
	"strconv"
)

var removedCondition, _ = strconv.Atoi(os.Getenv("ONCE_REMOVED_CONDITION"))

func ` + switchedOff + `(n int) bool { return n == removedCondition }
%s`

// A source is one file whose conditions are found.
type source struct {
	name  string
	text  []byte
	files *token.FileSet
	found []removal
	next  *int // the number of the next removal
}

// removals finds the conditions of functions of a file, all where none are named.
func removals(folder, name string, functions []string, calls []string, next *int) ([]removal, string, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return nil, "", err
	}
	s := &source{name: name, text: text, files: token.NewFileSet(), next: next}
	file, err := parser.ParseFile(s.files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	missing := slices.Clone(functions)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || len(functions) > 0 && !slices.Contains(functions, f.Name.Name) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == f.Name.Name })
		s.function(f, calls)
	}
	if len(missing) > 0 {
		return nil, "", fmt.Errorf("%s has no function %v", name, missing)
	}
	return s.found, file.Name.Name, nil
}

func (s *source) function(f *ast.FuncDecl, calls []string) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			s.operand(f, n, n.X)
			s.operand(f, n, n.Y)
		case *ast.IfStmt:
			s.whole(f, n.Cond)
		case *ast.CaseClause:
			s.cases(f, n)
		case *ast.ExprStmt:
			s.call(f, n, calls)
		}
		return true
	})
}

// cases are whole conditions where the clause is of a switch without a tag.
func (s *source) cases(f *ast.FuncDecl, n *ast.CaseClause) {
	for _, x := range n.List {
		if isCondition(x) {
			s.whole(f, x)
		}
	}
}

// isCondition tells conditions from values: those of a switch over values are names and literals.
func isCondition(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BinaryExpr, *ast.CallExpr:
		return true
	case *ast.UnaryExpr:
		return x.Op == token.NOT
	}
	return false
}

// operand removes a term: of a conjunction it is true, of a disjunction false.
func (s *source) operand(f *ast.FuncDecl, n *ast.BinaryExpr, x ast.Expr) {
	if !s.single(x) {
		return
	}
	if n.Op == token.LAND {
		s.add(f, x, "", " || %s")
	}
	if n.Op == token.LOR {
		s.add(f, x, "", " && !%s")
	}
}

// whole makes a condition never hold, and always.
func (s *source) whole(f *ast.FuncDecl, x ast.Expr) {
	if s.single(x) {
		s.add(f, x, " never", " && !%s")
		s.add(f, x, " always", " || %s")
	}
}

// single tells a term from what is made of terms, and leaves out whether something went wrong: that is no condition on what is stored.
func (s *source) single(x ast.Expr) bool {
	if p, ok := x.(*ast.ParenExpr); ok {
		return s.single(p.X)
	}
	b, ok := x.(*ast.BinaryExpr)
	return !ok || b.Op != token.LAND && b.Op != token.LOR && !isError(b.X)
}

func isError(x ast.Expr) bool {
	name, ok := x.(*ast.Ident)
	return ok && (name.Name == "err" || name.Name == "failed" || name.Name == "corrupt")
}

func (s *source) place(x ast.Node) (from, to int) {
	return s.files.Position(x.Pos()).Offset, s.files.Position(x.End()).Offset
}

func (s *source) add(f *ast.FuncDecl, x ast.Node, how, format string) {
	from, to := s.place(x)
	call := fmt.Sprintf("%s(%d)", switchedOff, *s.next)
	s.keep(f, string(s.text[from:to])+how, edit{s.name, from, "("}, edit{s.name, to, fmt.Sprintf(format, call) + ")"})
}

func (s *source) keep(f *ast.FuncDecl, what string, edits ...edit) {
	*s.next++
	s.found = append(s.found, removal{fmt.Sprintf("%s %s: %s", s.name, f.Name.Name, strings.Join(strings.Fields(what), " ")), edits})
}

// call replaces a call that adds a condition by one that adds what always holds.
func (s *source) call(f *ast.FuncDecl, n *ast.ExprStmt, calls []string) {
	call, ok := n.X.(*ast.CallExpr)
	if !ok {
		return
	}
	name, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(calls, name.Sel.Name) {
		return
	}
	from, to := s.place(n)
	s.keep(f, string(s.text[from:to]), edit{s.name, from, fmt.Sprintf("if %s(%d) { x.always() } else { ", switchedOff, *s.next)}, edit{s.name, to, " }"})
}

// write makes the changed copies of a package's files, and gives the overlay that puts them in place.
func write(folder, into, name, more string, found []removal) (map[string]string, error) {
	texts := map[string]string{}
	var all []edit
	for _, r := range found {
		all = append(all, r.edit...)
	}
	// From the end to the beginning, so that places stay; of what begins at one place, a condition's parts lie within it.
	slices.SortStableFunc(all, func(a, b edit) int { return cmp.Compare(b.at, a.at) })
	for _, e := range all {
		if texts[e.file] == "" {
			text, err := os.ReadFile(filepath.Join(folder, e.file))
			if err != nil {
				return nil, err
			}
			texts[e.file] = string(text)
		}
		texts[e.file] = texts[e.file][:e.at] + e.text + texts[e.file][e.at:]
	}
	texts["conditions_removed.go"] = fmt.Sprintf(added, name, more)
	replace := map[string]string{}
	for file, text := range texts {
		path := filepath.Join(into, file)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
		replace[filepath.Join(folder, file)] = path
	}
	return replace, nil
}
