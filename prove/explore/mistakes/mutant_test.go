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

// A removal disables one condition while its number is set in the environment of the tests. So all
// removals of a package are compiled together.
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

// added is a file that is added to a package: it reads which condition is removed.
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
	calls []string
	in    string            // the current function
	seen  map[ast.Expr]bool // conditions that have a removal
	found []removal
	names map[string]int
	next  *int // the number of the next removal
}

// removals finds the conditions in functions of a file, or in all functions if none are named.
func removals(folder, name string, functions []string, calls []string, next *int) ([]removal, string, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return nil, "", err
	}
	s := &source{name: name, text: text, files: token.NewFileSet(), calls: calls, seen: map[ast.Expr]bool{}, names: map[string]int{}, next: next}
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
		s.in = f.Name.Name
		s.body(f.Type, f.Body)
	}
	if len(missing) > 0 {
		return nil, "", fmt.Errorf("%s has no function %v", name, missing)
	}
	return s.found, file.Name.Name, nil
}

// body finds the conditions of a function: those that choose a branch, and values that are
// returned, stored or passed on.
func (s *source) body(of *ast.FuncType, b *ast.BlockStmt) {
	ast.Inspect(b, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			s.body(n.Type, n.Body)
			return false
		case *ast.IfStmt:
			s.whole(n.Cond)
		case *ast.ForStmt:
			s.whole(n.Cond)
		case *ast.SwitchStmt:
			s.cases(n)
		case *ast.ReturnStmt:
			s.answers(of, n)
		case *ast.BinaryExpr:
			s.value(n)
			if isLogic(n) {
				s.operand(n.Op, n.X)
				s.operand(n.Op, n.Y)
			}
		case *ast.UnaryExpr:
			s.value(n)
			s.seen[ast.Unparen(n.X)] = true
		case *ast.ExprStmt:
			s.call(n)
		}
		return true
	})
}

// cases are conditions if the switch has no tag.
func (s *source) cases(n *ast.SwitchStmt) {
	if n.Tag != nil {
		return
	}
	for _, c := range n.Body.List {
		for _, x := range c.(*ast.CaseClause).List {
			s.whole(x)
		}
	}
}

// answers are conditions if a function returns a bool expression that is not a variable.
func (s *source) answers(of *ast.FuncType, n *ast.ReturnStmt) {
	if of.Results == nil {
		return
	}
	var bools []bool
	for _, r := range of.Results.List {
		name, ok := r.Type.(*ast.Ident)
		for range max(1, len(r.Names)) {
			bools = append(bools, ok && name.Name == "bool")
		}
	}
	for i, x := range n.Results {
		if _, call := ast.Unparen(x).(*ast.CallExpr); call && len(bools) == len(n.Results) && bools[i] {
			s.whole(x)
		}
	}
}

// value finds a condition that is used as a value.
func (s *source) value(x ast.Expr) {
	switch n := x.(type) {
	case *ast.BinaryExpr:
		if n.Op != token.LAND && n.Op != token.LOR && !isComparison(n.Op) {
			return
		}
	case *ast.UnaryExpr:
		if n.Op != token.NOT {
			return
		}
	}
	s.whole(x)
}

func isLogic(x ast.Expr) bool {
	b, ok := x.(*ast.BinaryExpr)
	return ok && (b.Op == token.LAND || b.Op == token.LOR)
}

func isComparison(op token.Token) bool {
	return slices.Contains([]token.Token{token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ}, op)
}

// operand removes a term: in a conjunction it becomes true, in a disjunction false.
func (s *source) operand(of token.Token, x ast.Expr) {
	x = ast.Unparen(x)
	s.seen[x] = true
	b, ok := x.(*ast.BinaryExpr)
	switch {
	case ok && b.Op == of, isError(x):
	case of == token.LAND:
		s.add(x, "", " || %s")
	default:
		s.add(x, "", " && !%s")
	}
}

// whole makes a condition never hold, and always hold. A conjunction without a term holds more
// often, so it is only made to never hold; a disjunction only to always hold.
func (s *source) whole(x ast.Expr) {
	x = ast.Unparen(x)
	if x == nil || s.seen[x] || isError(x) {
		return
	}
	s.seen[x] = true
	b, ok := x.(*ast.BinaryExpr)
	if !ok || b.Op != token.LOR {
		s.add(x, " never", " && !%s")
	}
	if !ok || b.Op != token.LAND {
		s.add(x, " always", " || %s")
	}
}

// isError reports whether an expression checks for an error, which is no condition on stored data.
func isError(x ast.Expr) bool {
	b, ok := x.(*ast.BinaryExpr)
	if !ok {
		return false
	}
	name, ok := b.X.(*ast.Ident)
	return ok && (name.Name == "err" || name.Name == "failed" || name.Name == "corrupt")
}

func (s *source) place(x ast.Node) (from, to int) {
	return s.files.Position(x.Pos()).Offset, s.files.Position(x.End()).Offset
}

func (s *source) add(x ast.Node, how, format string) {
	from, to := s.place(x)
	call := fmt.Sprintf("%s(%d)", switchedOff, *s.next)
	s.keep(string(s.text[from:to])+how, edit{s.name, from, "("}, edit{s.name, to, fmt.Sprintf(format, call) + ")"})
}

// keep names a removal, and numbers removals with the same name.
func (s *source) keep(what string, edits ...edit) {
	*s.next++
	name := fmt.Sprintf("%s %s: %s", s.name, s.in, strings.Join(strings.Fields(what), " "))
	if s.names[name]++; s.names[name] > 1 {
		name += fmt.Sprintf(" (%d)", s.names[name])
	}
	s.found = append(s.found, removal{name, edits})
}

// call replaces a call that adds a condition by one that adds a condition that always holds.
func (s *source) call(n *ast.ExprStmt) {
	call, ok := n.X.(*ast.CallExpr)
	if !ok {
		return
	}
	name, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(s.calls, name.Sel.Name) {
		return
	}
	from, to := s.place(n)
	s.keep(string(s.text[from:to]), edit{s.name, from, fmt.Sprintf("if %s(%d) { x.always() } else { ", switchedOff, *s.next)}, edit{s.name, to, " }"})
}

// write makes the changed copies of a package's files, and returns the overlay that replaces them.
func write(folder, into, name, more string, found []removal) (map[string]string, error) {
	texts := map[string]string{}
	var all []edit
	for _, r := range found {
		all = append(all, r.edit...)
	}
	// From the end to the beginning, so that earlier positions stay valid. Of conditions that begin
	// at one position, the outer one contains the others.
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
