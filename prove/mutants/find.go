package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// A mutant is one small fault. All mutants are compiled at once, and each has a number that
// switches it on while the tests run.
type mutant struct {
	number  int    // within the package
	pkg     string // the folder of its package, relative to the root
	name    string // file, function, and the changed text
	from    int    // the offsets of the changed text in the file
	to      int
	prefix  string // go before and after the changed text
	suffix  string
	dropped bool // it does not compile
}

// id is how the environment names a mutant.
func (m *mutant) id() string { return m.pkg + " " + strconv.Itoa(m.number) }

// hash orders mutants at random, and always in the same way: a change elsewhere does not change the
// sample.
func (m *mutant) hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.pkg + "/" + m.name)) // a hash never fails
	x := h.Sum64()
	x ^= x >> 33 // mix: names that differ only at their ends have similar hashes
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// A finder finds the mutants of one file.
type finder struct {
	pkg, file string
	source    []byte
	set       *token.FileSet
	in        string // the function
	seen      map[ast.Node]bool
	names     map[string]int
	found     []*mutant
}

// find returns the mutants of a file.
func find(pkg, file string, source []byte) ([]*mutant, error) {
	f := &finder{
		pkg: pkg, file: file, source: source, set: token.NewFileSet(), seen: map[ast.Node]bool{}, names: map[string]int{},
	}
	parsed, err := parser.ParseFile(f.set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range parsed.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			f.in = fn.Name.Name
			f.body(fn.Type, fn.Body)
		}
	}
	return f.found, nil
}

// add records a mutant. A zero byte in its own calls is replaced by its number later.
func (f *finder) add(n ast.Node, how, prefix, suffix string) {
	from, to := f.set.Position(n.Pos()).Offset, f.set.Position(n.End()).Offset
	text := strings.Join(strings.Fields(string(f.source[from:to])), " ")
	if len(text) > 100 {
		text = text[:60] + " … " + text[len(text)-35:]
	}
	name := fmt.Sprintf("%s %s: %s: %s", f.file, f.in, text, how)
	if f.names[name]++; f.names[name] > 1 {
		name += fmt.Sprintf(" (%d)", f.names[name])
	}
	f.found = append(f.found, &mutant{pkg: f.pkg, name: name, from: from, to: to, prefix: prefix, suffix: suffix})
}

// body finds the mutants of a function's body. Those of a function within it come first.
func (f *finder) body(of *ast.FuncType, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.body(n.Type, n.Body)
			return false
		case *ast.GenDecl:
			return n.Tok != token.CONST
		case *ast.BlockStmt:
			f.statements(n.List)
		case *ast.CaseClause:
			f.statements(n.Body)
		case *ast.CommClause:
			f.statements(n.Body)
		case *ast.IfStmt:
			f.condition(n.Cond)
		case *ast.ForStmt:
			if n.Cond != nil {
				f.condition(n.Cond)
			}
		case *ast.SwitchStmt:
			f.cases(n)
		case *ast.TypeSwitchStmt:
			f.branches(n.Body)
		case *ast.SelectStmt:
			f.branches(n.Body)
		case *ast.ReturnStmt:
			f.results(of, n)
		case *ast.BinaryExpr:
			f.binary(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				f.condition(n)
			}
		case *ast.KeyValueExpr:
			f.field(n)
		}
		return true
	})
}

// condition makes a condition never hold, and always. A part of a conjunction or a disjunction is
// only taken out: the rest of these mutants are those of the other parts.
func (f *finder) condition(x ast.Expr) {
	inner := ast.Unparen(x)
	if f.seen[inner] {
		return
	}
	f.seen[inner] = true
	if not, ok := inner.(*ast.UnaryExpr); ok && not.Op == token.NOT {
		f.seen[ast.Unparen(not.X)] = true
	}
	binary, ok := inner.(*ast.BinaryExpr)
	if (!ok || binary.Op != token.LOR) && !isNamed(inner, "false") {
		f.add(inner, "never", "((", ") && !mutantOn(\x00))")
	}
	if (!ok || binary.Op != token.LAND) && !isNamed(inner, "true") {
		f.add(inner, "always", "((", ") || mutantOn(\x00))")
	}
}

// binary takes out the operands of a conjunction or disjunction, and moves the bound of a
// comparison.
func (f *finder) binary(n *ast.BinaryExpr) {
	x, y := f.text(n.X), f.text(n.Y)
	switch n.Op {
	case token.LAND, token.LOR:
		f.condition(n)
		for _, operand := range []ast.Expr{n.X, n.Y} {
			operand = ast.Unparen(operand)
			f.seen[operand] = true
			b, ok := operand.(*ast.BinaryExpr)
			switch {
			case ok && b.Op == n.Op:
			case n.Op == token.LAND:
				f.add(operand, "left out", "((", ") || mutantOn(\x00))")
			default:
				f.add(operand, "left out", "((", ") && !mutantOn(\x00))")
			}
		}
	case token.EQL, token.NEQ:
		f.condition(n)
	case token.LSS, token.GTR:
		f.condition(n)
		f.add(n, "or equal", "((", ") || mutantOn(\x00) && "+x+" == "+y+")")
	case token.LEQ, token.GEQ:
		f.condition(n)
		f.add(n, "not equal", "((", ") && !(mutantOn(\x00) && "+x+" == "+y+"))")
	default:
	}
}

// text returns an expression in one line, so that the lines of the file stay where they are.
func (f *finder) text(x ast.Expr) string {
	from, to := f.set.Position(x.Pos()).Offset, f.set.Position(x.End()).Offset
	return "(" + strings.Join(strings.Fields(string(f.source[from:to])), " ") + ")"
}

// cases finds the conditions of a switch without a tag, and the branches of any other.
func (f *finder) cases(n *ast.SwitchStmt) {
	if n.Tag != nil {
		f.branches(n.Body)
		return
	}
	for _, c := range n.Body.List {
		for _, x := range c.(*ast.CaseClause).List {
			f.condition(x)
		}
	}
}

// branches makes each branch of a switch or select do nothing.
func (f *finder) branches(body *ast.BlockStmt) {
	for _, c := range body.List {
		var statements []ast.Stmt
		switch c := c.(type) {
		case *ast.CaseClause:
			statements = c.Body
		case *ast.CommClause:
			statements = c.Body
		}
		if len(statements) > 0 && goesOn(statements[len(statements)-1]) {
			f.add(statements[0], "branch left out", "if mutantOn(\x00) { break }; ", "")
		}
	}
}

// goesOn reports whether the statement after s can be reached. A branch that returns has to stay,
// because the function may end with it.
func goesOn(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && !isNamed(call.Fun, "panic")
	case *ast.AssignStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.RangeStmt:
		return true
	case *ast.IfStmt:
		return s.Else == nil
	}
	return false
}

// statements leaves out calls, assignments and defers.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		var call *ast.CallExpr
		switch s := s.(type) {
		case *ast.ExprStmt:
			call, _ = s.X.(*ast.CallExpr)
		case *ast.DeferStmt:
			call = s.Call
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !blank(s.Lhs) {
				f.add(s, "left out", "if !mutantOn(\x00) { ", " }")
			}
		case *ast.IncDecStmt:
			f.add(s, "left out", "if !mutantOn(\x00) { ", " }")
		}
		if call != nil && !unseen(call) {
			f.add(s, "left out", "if !mutantOn(\x00) { ", " }")
		}
	}
}

func isNamed(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

func blank(list []ast.Expr) bool {
	return !slices.ContainsFunc(list, func(x ast.Expr) bool {
		return !isNamed(x, "_")
	})
}

// unseen reports whether leaving out a call changes nothing that a test without the race detector
// can see: locks, log lines, and releasing a context or a timer. A panic ends its function.
func unseen(call *ast.CallExpr) bool {
	name, of := "", ""
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		name = fn.Name
	case *ast.SelectorExpr:
		name = fn.Sel.Name
		switch x := fn.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
	}
	log := strings.EqualFold(of, "log") || of == "slog"
	return log || slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock", "panic", "cancel", "stop", "release", "Stop"}, name)
}

// results replaces a returned error by nil, and negates a returned truth value.
func (f *finder) results(of *ast.FuncType, n *ast.ReturnStmt) {
	var types []string
	if of.Results != nil {
		for _, field := range of.Results.List {
			name, _ := field.Type.(*ast.Ident)
			for range max(1, len(field.Names)) {
				types = append(types, cmp.Or(name, &ast.Ident{}).Name)
			}
		}
	}
	if len(n.Results) != len(types) {
		return
	}
	for i, x := range n.Results {
		switch {
		case types[i] == "error" && !isNamed(x, "nil"):
			f.add(x, "nil", "mutantNil(\x00, ", ")")
		case types[i] == "bool":
			f.condition(x)
		}
	}
}

// field leaves a field of a struct, or a value of a map, at zero.
func (f *finder) field(n *ast.KeyValueExpr) {
	if lit, ok := n.Value.(*ast.CompositeLit); ok && lit.Type == nil {
		return
	}
	if lit, ok := n.Value.(*ast.BasicLit); ok && (lit.Value == "0" || lit.Value == `""`) {
		return
	}
	if _, ok := n.Value.(*ast.FuncLit); ok || isNamed(n.Value, "nil") || isNamed(n.Value, "false") {
		return
	}
	f.add(n.Value, "zero in "+f.text(n.Key), "mutantZero(\x00, ", ")")
}
