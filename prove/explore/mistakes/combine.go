package mistakes

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// A version is the text of a file with one mistake.
type version struct {
	mistake int
	text    string
}

// A piece is a declaration of a file. Its head has to be the same in all versions, unless only the
// version has the piece. Its body is the part that a version may change: the body of a function, or
// the value of a constant or a variable.
type piece struct {
	decl       ast.Decl
	head, body string
	at         int // the offset of the body
}

// A parsed file is divided into its pieces.
type parsed struct {
	text    string
	set     *token.FileSet
	file    *ast.File
	pieces  map[string]piece
	names   []string // of the pieces, in their order
	imports []string
}

// combine returns a file in which each version can be chosen when the program runs: the functions
// that a version changes begin with its body, under the condition that its mistake is active.
func combine(name, original string, versions []version) (*combined, error) {
	c := &combined{name: name, left: map[int]string{}, wider: map[int][]string{}, inserted: map[int]string{}, removed: map[int]int{}, added: map[string]string{}}
	if original == "" {
		original = "package added"
		for _, v := range versions {
			c.left[v.mistake], versions = "it adds the file "+name, nil
		}
	}
	var err error
	if c.parsed, err = parse(original); err != nil {
		return nil, fmt.Errorf("combine mistakes in %s: %w", name, err)
	}
	for _, v := range versions {
		changed, err := parse(v.text)
		if err != nil {
			c.left[v.mistake] = err.Error()
		} else if why := c.add(v.mistake, changed); why != "" {
			c.left[v.mistake] = why
		}
	}
	return c, nil
}

func parse(text string) (*parsed, error) {
	s := &parsed{text: text, set: token.NewFileSet(), pieces: map[string]piece{}}
	var err error
	if s.file, err = parser.ParseFile(s.set, "", text, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	for _, i := range s.file.Imports {
		s.imports = append(s.imports, s.between(i.Pos(), i.End()))
	}
	for _, d := range s.file.Decls {
		name, p := s.piece(d)
		if name == "import" {
			continue
		}
		for first, n := name, 2; slices.Contains(s.names, name); n++ { // init and _ may be declared repeatedly
			name = fmt.Sprint(first, " ", n)
		}
		s.names, s.pieces[name] = append(s.names, name), p
	}
	return s, nil
}

func (s *parsed) offset(p token.Pos) int { return s.set.PositionFor(p, false).Offset }

func (s *parsed) between(from, to token.Pos) string { return s.text[s.offset(from):s.offset(to)] }

// piece returns a declaration and its name. Of types and of declarations of several names, all is
// head.
func (s *parsed) piece(d ast.Decl) (string, piece) {
	whole := piece{decl: d, head: s.between(d.Pos(), d.End())}
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := "func " + d.Name.Name
		if d.Recv != nil {
			name = "func (" + strings.TrimLeft(s.between(d.Recv.List[0].Type.Pos(), d.Recv.List[0].Type.End()), "*") + ") " + d.Name.Name
		}
		if d.Body == nil {
			return name, whole
		}
		return name, piece{d, s.between(d.Pos(), d.Body.Lbrace), s.between(d.Body.Lbrace+1, d.Body.Rbrace), s.offset(d.Body.Lbrace) + 1}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return "import", whole
		}
		if v, ok := d.Specs[0].(*ast.ValueSpec); ok && !d.Lparen.IsValid() && len(v.Names) == 1 && len(v.Values) == 1 {
			return "value " + v.Names[0].Name, piece{d, s.between(d.Pos(), v.Values[0].Pos()), s.between(v.Values[0].Pos(), v.Values[0].End()), s.offset(v.Values[0].Pos())}
		}
	}
	return whole.head, whole
}

// A combined file has the versions that fit into it.
type combined struct {
	*parsed
	name     string
	left     map[int]string   // the mistakes that do not fit, and why
	wider    map[int][]string // what the others change beside bodies of functions
	inserted map[int]string   // by offset
	removed  map[int]int      // how many bytes, by offset
	added    map[string]string
	values   []string // the values that changed
	news     []string // imports that only versions have
}

// add adds a version, or returns why it does not fit.
func (c *combined) add(mistake int, changed *parsed) (why string) {
	for _, name := range c.names {
		switch now, ok := changed.pieces[name]; {
		case !ok:
			return "it changes or removes " + firstLine(name)
		case c.pieces[name].head != now.head:
			return "it changes the declaration of " + firstLine(name)
		}
	}
	for _, name := range changed.names {
		now, other := changed.pieces[name], c.added[name]
		if _, known := c.pieces[name]; known {
			continue
		}
		if _, ok := now.decl.(*ast.FuncDecl); !ok || other != "" && other != now.head+"{"+now.body {
			return "it declares " + firstLine(name)
		}
	}
	for _, name := range changed.names {
		was, known := c.pieces[name]
		switch now := changed.pieces[name]; {
		case !known:
			c.added[name] = now.head + "{" + now.body
			c.widen(mistake, now.decl.(*ast.FuncDecl).Name.Name)
		case was.body != now.body:
			c.change(mistake, name, was, now, changed)
		}
	}
	for _, i := range changed.imports {
		if !slices.Contains(c.imports, i) && !slices.Contains(c.news, i) {
			c.news = append(c.news, i)
			c.widen(mistake, i)
		}
	}
	return ""
}

func (c *combined) widen(mistake int, name string) { c.wider[mistake] = append(c.wider[mistake], name) }

func firstLine(s string) string { return strings.SplitN(s, "\n", 2)[0] }

// change puts the changed body of a function before the original one. Errors of the compiler name
// the file of the mistake, which does not exist.
func (c *combined) change(mistake int, name string, was, now piece, changed *parsed) {
	f, ok := now.decl.(*ast.FuncDecl)
	if !ok {
		c.widen(mistake, strings.TrimPrefix(name, "value "))
		if !slices.Contains(c.values, name) {
			c.values = append(c.values, name)
		}
		c.inserted[was.at+len(was.body)] += fmt.Sprintf(".or(%s == %d, %s)", activeMistake, mistake, now.body)
		return
	}
	end := "\n}"
	if f.Type.Results.NumFields() == 0 {
		end = "\nreturn }"
	}
	at := c.set.PositionFor(was.decl.(*ast.FuncDecl).Body.Lbrace+1, false)
	c.inserted[was.at] += fmt.Sprintf("if %s == %d {/*line %s:1:1*/", activeMistake, mistake, mistakeFile(mistake)) +
		relabelled(f, now, changed, mistake) + end + fmt.Sprintf("\n/*line %s:%d:%d*/", c.name, at.Line, at.Column)
}

// relabelled returns the body of a function with labels of its own, because a label belongs to the
// whole function.
func relabelled(f *ast.FuncDecl, p piece, s *parsed, mistake int) string {
	var ends []int
	ast.Inspect(f.Body, func(n ast.Node) bool {
		var label *ast.Ident
		switch n := n.(type) {
		case *ast.LabeledStmt:
			label = n.Label
		case *ast.BranchStmt:
			label = n.Label
		}
		if label != nil {
			ends = append(ends, s.offset(label.End())-p.at)
		}
		return true
	})
	slices.SortFunc(ends, func(a, b int) int { return cmp.Compare(b, a) })
	body := p.body
	for _, at := range ends {
		body = body[:at] + fmt.Sprint(mistake) + body[at:]
	}
	return body
}

// render returns the text of the file. A constant whose value changes becomes a variable.
func (c *combined) render() string {
	for _, name := range c.values {
		p := c.pieces[name]
		if d := p.decl.(*ast.GenDecl); d.Tok == token.CONST {
			c.removed[c.offset(d.Pos())], c.inserted[c.offset(d.Pos())] = len("const"), "var"
		}
		c.inserted[p.at] = valueOf + "("
		c.inserted[p.at+len(p.body)] = ")" + c.inserted[p.at+len(p.body)] + ".value"
	}
	for _, i := range c.news {
		c.inserted[c.offset(c.file.Name.End())] += "; import " + i
	}
	var b strings.Builder
	last := 0
	for _, at := range slices.Sorted(maps.Keys(c.inserted)) {
		b.WriteString(c.text[last:at] + c.inserted[at])
		last = at + c.removed[at]
	}
	b.WriteString(c.text[last:])
	for _, name := range slices.Sorted(maps.Keys(c.added)) {
		b.WriteString("\n" + c.added[name] + "}\n")
	}
	return b.String()
}

const (
	activeMistake = "activeMistake" // the variable that has the number of the mistake
	valueOf       = "valueUnless"   // the function that chooses the value of a variable
	// mistakeNumber is the environment variable that chooses the mistake; without it there is none.
	mistakeNumber = "ONCE_MISTAKE"
)

// mistakeFile is the name of a file in errors of the compiler.
func mistakeFile(mistake int) string { return fmt.Sprintf("mistake_%d.go", mistake) }

// switches is the file that is added to each package with a mistake.
const switches = `package %s

import (
	"os"
	"strconv"
)

var ` + activeMistake + `, _ = strconv.Atoi(os.Getenv("` + mistakeNumber + `"))

type chosenValue[T any] struct{ value T }

func ` + valueOf + `[T any](value T) chosenValue[T] { return chosenValue[T]{value} }

func (v chosenValue[T]) or(active bool, value T) chosenValue[T] {
	if active {
		v.value = value
	}
	return v
}
`
