package main

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
)

// A source is all Go files with their types, as far as they follow from these files and from the
// units of time. Other packages stay unknown, so nothing needs to be compiled or downloaded.
type source struct {
	files    *token.FileSet
	texts    map[string][]byte
	parsed   map[string]*ast.File
	packages map[string][]*ast.File    // by the path of the package
	imported map[string]*types.Package // nil while it is being checked
	info     *types.Info
	values   map[types.Object][]ast.Expr // what tests assign to a variable, a field or a parameter
	busy     map[types.Object]bool       // being evaluated
	bubbles  map[types.Object]bool       // functions that call a function, which they are given, in virtual time
}

// timeUnits is all of package time that the values of constants need.
const timeUnits = `package time
type Duration int64
const (
	Nanosecond  Duration = 1
	Microsecond          = 1000 * Nanosecond
	Millisecond          = 1000 * Microsecond
	Second               = 1000 * Millisecond
	Minute               = 60 * Second
	Hour                 = 60 * Minute
)`

func (t *tree) checked() (*source, error) {
	s := &source{
		files: token.NewFileSet(), texts: map[string][]byte{}, parsed: map[string]*ast.File{},
		packages: map[string][]*ast.File{}, imported: map[string]*types.Package{},
		info:   &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}},
		values: map[types.Object][]ast.Expr{}, busy: map[types.Object]bool{}, bubbles: map[types.Object]bool{},
	}
	file, err := parser.ParseFile(s.files, "time.go", timeUnits, 0)
	if err != nil {
		return nil, err
	}
	s.packages["time"] = []*ast.File{file}
	err = t.each(".go", func(name string, text []byte) error {
		file, err := parser.ParseFile(s.files, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		pkg := path.Join(module, path.Dir(name))
		if strings.HasSuffix(file.Name.Name, "_test") {
			pkg += "_test"
		}
		s.parsed[name], s.texts[name] = file, text
		s.packages[pkg] = append(s.packages[pkg], file)
		return nil
	})
	for _, pkg := range slices.Sorted(maps.Keys(s.packages)) {
		_, _ = s.Import(pkg) // the order decides where a circle by way of tests is cut
	}
	for name, file := range s.parsed {
		if readsTime(name) {
			ast.Inspect(file, s.assigned)
		}
	}
	return s, err
}

// Import returns a package of the source.
func (s *source) Import(name string) (*types.Package, error) {
	if pkg, begun := s.imported[name]; pkg != nil {
		return pkg, nil
	} else if begun || s.packages[name] == nil {
		return nil, errors.New("unknown")
	}
	s.imported[name] = nil
	config := types.Config{Importer: s, Error: func(error) {}, FakeImportC: true}
	pkg, _ := config.Check(name, s.files, s.packages[name], s.info) // errors follow from unknown packages
	s.imported[name] = pkg
	return pkg, nil
}

// assigned notes the values that a node gives to variables, fields and parameters of tests.
func (s *source) assigned(n ast.Node) bool {
	set := func(to types.Object, value ast.Expr) {
		if to != nil && readsTime(s.files.Position(to.Pos()).Filename) {
			s.values[to] = append(s.values[to], value)
		}
	}
	switch n := n.(type) {
	case *ast.FuncDecl:
		if o := s.object(n.Name); o != nil && s.isBubble(n) {
			s.bubbles[o] = true
		}
	case *ast.AssignStmt:
		for i, x := range n.Lhs {
			if len(n.Rhs) == len(n.Lhs) && (n.Tok == token.DEFINE || n.Tok == token.ASSIGN) {
				set(s.object(x), n.Rhs[i])
			}
		}
	case *ast.ValueSpec:
		for i, x := range n.Values {
			if len(n.Values) == len(n.Names) {
				set(s.object(n.Names[i]), x)
			}
		}
	case *ast.RangeStmt:
		if list, ok := n.X.(*ast.CompositeLit); ok && n.Value != nil {
			for _, x := range list.Elts {
				if entry, ok := x.(*ast.KeyValueExpr); ok {
					x = entry.Value
				}
				set(s.object(n.Value), x)
			}
		}
	case *ast.KeyValueExpr:
		set(s.object(n.Key), n.Value)
	case *ast.CompositeLit:
		if fields, ok := under[*types.Struct](s, n); ok && fields.NumFields() == len(n.Elts) {
			for i, x := range n.Elts {
				set(fields.Field(i), x)
			}
		}
	case *ast.CallExpr:
		if f, ok := under[*types.Signature](s, n.Fun); ok {
			for i := range min(len(n.Args), f.Params().Len()) {
				set(f.Params().At(i), n.Args[i])
			}
		}
	}
	return true
}

// isBubble reports whether a function calls one of its parameters in the bubble of a call of
// synctest.Test.
func (s *source) isBubble(f *ast.FuncDecl) (found bool) {
	given := map[types.Object]bool{}
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			_, given[s.object(name)] = field.Type.(*ast.FuncType)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && s.is(c.Fun, "testing/synctest", "Test") {
			ast.Inspect(c, func(n ast.Node) bool {
				name, ok := n.(*ast.Ident)
				found = found || ok && given[s.object(name)]
				return true
			})
		}
		return true
	})
	return found
}

func under[T types.Type](s *source, x ast.Expr) (T, bool) {
	var none T
	t := s.info.TypeOf(x)
	if t == nil {
		return none, false
	}
	u, ok := t.Underlying().(T)
	return u, ok
}

// object returns the variable, field, function or package that an expression names, or nil.
func (s *source) object(x ast.Expr) types.Object {
	switch x := x.(type) {
	case *ast.Ident:
		return s.info.ObjectOf(x)
	case *ast.SelectorExpr:
		return s.info.ObjectOf(x.Sel)
	}
	return nil
}

// is reports whether an expression is one of the functions of a package.
func (s *source) is(x ast.Expr, pkg string, names ...string) bool {
	f, ok := x.(*ast.SelectorExpr)
	if !ok || !slices.Contains(names, f.Sel.Name) {
		return false
	}
	name, ok := s.object(f.X).(*types.PkgName)
	return ok && name.Imported().Path() == pkg
}

func (s *source) isNow(x ast.Expr) bool {
	c, ok := x.(*ast.CallExpr)
	return ok && s.is(c.Fun, "time", "Now")
}

// duration returns the shortest value of a duration, in nanoseconds, and whether one is known.
func (s *source) duration(x ast.Expr) (float64, bool) {
	if v := s.info.Types[x].Value; v != nil && (v.Kind() == constant.Int || v.Kind() == constant.Float) {
		n, _ := constant.Float64Val(v)
		return n, true
	}
	switch x := x.(type) {
	case *ast.ParenExpr:
		return s.duration(x.X)
	case *ast.CallExpr: // a conversion
		if len(x.Args) == 1 && s.info.Types[x.Fun].IsType() {
			return s.duration(x.Args[0])
		}
	case *ast.BinaryExpr:
		a, first := s.duration(x.X)
		b, second := s.duration(x.Y)
		if x.Op == token.MUL {
			return a * b, first && second
		}
		return a + b, first && second && x.Op == token.ADD
	}
	return s.shortest(x, s.duration)
}

// ahead returns how far a time is ahead of the clock of the machine, in nanoseconds, if it comes
// from a reading of that clock.
func (s *source) ahead(x ast.Expr) (float64, bool) {
	if s.isNow(x) {
		return 0, true
	}
	c, ok := x.(*ast.CallExpr)
	if !ok {
		return s.shortest(x, s.ahead)
	}
	f, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Add" || len(c.Args) != 1 {
		return 0, false
	}
	from, first := s.ahead(f.X)
	d, second := s.duration(c.Args[0])
	return from + d, first && second
}

// shortest returns the shortest known value above 0 of a variable, or another known one.
func (s *source) shortest(x ast.Expr, evaluate func(ast.Expr) (float64, bool)) (shortest float64, known bool) {
	o := s.object(x)
	if o == nil || s.busy[o] {
		return 0, false
	}
	s.busy[o] = true
	for _, value := range s.values[o] {
		if d, ok := evaluate(value); ok && (!known || 0 < d && (d < shortest || shortest <= 0)) {
			shortest, known = d, true
		}
	}
	delete(s.busy, o)
	return shortest, known
}
