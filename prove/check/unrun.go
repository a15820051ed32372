package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// unrun returns an error for each file of the packages with a test that is not among those that
// ran. If only some tests were chosen, one of each package is enough.
func (t *tree) unrun(packages []string, ran []timing, some bool) error {
	did, any := map[string]bool{}, map[string]bool{}
	for _, test := range ran {
		did[test.folder+" "+test.test], any[test.folder] = true, true
	}
	var problems []error
	if len(packages) > 0 && len(ran) == 0 {
		problems = append(problems, errors.New("no test ran"))
	}
	err := t.each("_test.go", func(name string, text []byte) error {
		folder := path.Dir(name)
		if some && any[folder] || !slices.ContainsFunc(packages, func(pattern string) bool { return t.in(pattern, folder) }) {
			return nil
		}
		tests, err := declaredTests(name, text)
		if err != nil {
			return err
		}
		if tests = slices.DeleteFunc(tests, func(test string) bool { return did[folder+" "+test] }); len(tests) > 0 {
			problems = append(problems, fmt.Errorf("%s: %s did not run: a build constraint excludes the file, or TestMain ended early", name, strings.Join(tests, ", ")))
		}
		return nil
	})
	return errors.Join(append(problems, err)...)
}

// declaredTests returns the names of the tests, fuzz targets and examples with output of a file.
func declaredTests(name string, text []byte) (tests []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	isTest := regexp.MustCompile(`^(Test|Fuzz)([^a-z]|$)`)
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && isTest.MatchString(f.Name.Name) && f.Name.Name != "TestMain" {
			tests = append(tests, f.Name.Name)
		}
	}
	for _, example := range doc.Examples(file) {
		if example.Output != "" || example.EmptyOutput {
			tests = append(tests, "Example"+example.Name)
		}
	}
	return tests, nil
}

// in reports whether a pattern of the go command, such as ./..., means a folder. Both start at the
// root of the source.
func (t *tree) in(pattern, folder string) bool {
	pattern = strings.TrimPrefix(path.Clean("/"+pattern), "/")
	top, below := strings.CutSuffix("/"+pattern, "/...")
	top = path.Join(".", strings.TrimPrefix(top, "/"))
	if !below {
		return folder == top
	}
	return (top == "." || strings.HasPrefix(folder+"/", top+"/")) && t.moduleOf(folder) == t.moduleOf(top)
}

// moduleOf returns the folder of the module to which a folder belongs.
func (t *tree) moduleOf(folder string) string {
	for folder != "." && !slices.Contains(t.files, folder+"/go.mod") {
		folder = path.Dir(folder)
	}
	return folder
}
