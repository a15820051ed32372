package main

import (
	"bytes"
	"go/ast"
	"go/constant"
	"go/token"
	"maps"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
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

// directivesOf returns the directives of a file by the lines to which they apply: the line of a
// comment behind code, and the line after a comment of its own.
func directivesOf(files *token.FileSet, file *ast.File, text []byte) map[int]*directive {
	start := regexp.MustCompile(`^// (` + realTime + `|` + virtualTime + `|` + fixedPort + `): *(.*)$`)
	found := map[int]*directive{}
	for _, group := range file.Comments {
		var d *directive
		for _, c := range group.List {
			if m := start.FindStringSubmatch(c.Text); m != nil {
				d = &directive{kind: m[1], reason: m[2], line: files.Position(c.Pos()).Line}
			} else if d != nil {
				d.reason += strings.TrimPrefix(c.Text, "//")
			}
		}
		if d != nil {
			begin, end := files.Position(group.Pos()), files.Position(group.End()).Line
			if len(bytes.TrimSpace(text[begin.Offset-begin.Column+1:begin.Offset])) == 0 {
				end++
			}
			found[end] = d
		}
	}
	return found
}

// importsOf returns the paths of the imports by their names in the file.
func importsOf(file *ast.File) map[string]string {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		pkg, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		name := path.Base(pkg)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = pkg
	}
	return imports
}

// constants are the declared values by name.
type constants map[string]declared

// A declared value, and the imports of its file.
type declared struct {
	value   ast.Expr
	imports map[string]string
}

func (c constants) add(decls []ast.Decl, imports map[string]string) {
	for _, decl := range decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			spec := spec.(*ast.ValueSpec)
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					c[name.Name] = declared{spec.Values[i], imports}
				}
			}
		}
	}
}

// within returns the constants of the package and those that a function declares.
func (c constants) within(decl ast.Decl, imports map[string]string) constants {
	all := maps.Clone(c)
	ast.Inspect(decl, func(n ast.Node) bool {
		if s, ok := n.(*ast.DeclStmt); ok {
			all.add([]ast.Decl{s.Decl}, imports)
		}
		return true
	})
	return all
}

// value returns a constant duration in nanoseconds. It reports false if the expression is none, or
// is made of constants of other packages.
func (c constants) value(x ast.Expr, imports map[string]string) (float64, bool) {
	v := c.evaluate(x, imports, 0)
	if !isNumber(v) {
		return 0, false
	}
	n, _ := constant.Float64Val(v)
	return n, true
}

// deepest ends the evaluation of constants that refer to each other.
const deepest = 20

func (c constants) evaluate(x ast.Expr, imports map[string]string, depth int) constant.Value {
	unknown := constant.MakeUnknown()
	if depth > deepest {
		return unknown
	}
	next := func(x ast.Expr) constant.Value { return c.evaluate(x, imports, depth+1) }
	switch x := x.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(x.Value, x.Kind, 0)
	case *ast.ParenExpr:
		return next(x.X)
	case *ast.Ident:
		if d, ok := c[x.Name]; ok {
			return c.evaluate(d.value, d.imports, depth+1)
		}
	case *ast.SelectorExpr:
		if id, ok := x.X.(*ast.Ident); ok && imports[id.Name] == "time" {
			if d, ok := unit(x.Sel.Name); ok {
				return constant.MakeInt64(int64(d))
			}
		}
	case *ast.CallExpr: // a conversion
		if f, ok := x.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Duration" && len(x.Args) == 1 {
			return next(x.Args[0])
		}
	case *ast.BinaryExpr:
		a, b := next(x.X), next(x.Y)
		switch {
		case !isNumber(a) || !isNumber(b):
		case x.Op == token.QUO && constant.Sign(b) == 0:
		case x.Op == token.MUL || x.Op == token.QUO || x.Op == token.ADD || x.Op == token.SUB:
			return constant.BinaryOp(a, x.Op, b)
		}
	}
	return unknown
}

func isNumber(v constant.Value) bool { return v.Kind() == constant.Int || v.Kind() == constant.Float }

func unit(name string) (time.Duration, bool) {
	d, ok := map[string]time.Duration{
		"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
		"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
	}[name]
	return d, ok
}

// addresses looks for a flag of an address in arguments, or in elements of a list.
func (r *reader) addresses(list []ast.Expr) {
	for i, x := range list {
		text := strings.TrimLeft(r.text(x), "-")
		if address, found := strings.CutPrefix(text, "listen="); found && isFixed(address) && text != r.text(x) {
			r.add(x, "port "+address, port)
		}
		if i > 0 && strings.TrimLeft(r.text(list[i-1]), "-") == "listen" {
			r.address(x)
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
	if v := r.constants.evaluate(x, r.imports, 0); v.Kind() == constant.String {
		return constant.StringVal(v)
	}
	return ""
}
