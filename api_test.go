package once_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestThePublicAPIHasNoInternalTypes holds that a user's program can call every exported function
// and set every exported field of the packages that it can import.
func TestThePublicAPIHasNoInternalTypes(t *testing.T) {
	public := []string{"once", "once/client", "once/embedded", "once/oncedynamo", "once/oncesql", "once/oncetest", "once/onlambda"}
	compiled := exportFiles(t)
	read := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
	for _, path := range public {
		pkg, err := read.Import("github.com/effectively-once/" + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.Scope().Names() {
			o := pkg.Scope().Lookup(name)
			if !o.Exported() {
				continue
			}
			if internal := internalIn(o.Type()); internal != "" {
				t.Errorf("%s.%s needs %s", path, name, internal)
			}
			if _, isType := o.(*types.TypeName); !isType {
				continue
			}
			if internal := internalIn(o.Type().Underlying()); internal != "" {
				t.Errorf("%s.%s needs %s", path, name, internal)
			}
			for m := range types.NewMethodSet(types.NewPointer(o.Type())).Methods() {
				if internal := internalIn(m.Type()); m.Obj().Exported() && internal != "" {
					t.Errorf("%s.%s.%s needs %s", path, name, m.Obj().Name(), internal)
				}
			}
		}
	}
}

// exportFiles returns the compiled files of the public packages and of all their imports.
func exportFiles(t *testing.T) map[string]string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race") // as this test was compiled, or go compiles all of it again
	}
	out, err := exec.CommandContext(t.Context(), "go", append(args, ".", "./client", "./embedded", "./oncedynamo", "./oncesql", "./oncetest", "./onlambda")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files
}

// internalIn returns the name of an internal type that a user of t needs, or "".
func internalIn(t types.Type) string {
	switch t := t.(type) {
	case *types.Named:
		if p := t.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), "github.com/effectively-once/once/internal/") {
			return t.String()
		}
		return first(t.TypeArgs().Len(), t.TypeArgs().At)
	case *types.Alias:
		return internalIn(types.Unalias(t))
	case *types.Map:
		return internalIn(t.Key()) + internalIn(t.Elem())
	case interface{ Elem() types.Type }:
		return internalIn(t.Elem())
	case *types.Signature:
		return internalIn(t.Params()) + internalIn(t.Results())
	case *types.Tuple:
		return first(t.Len(), func(i int) types.Type { return t.At(i).Type() })
	case *types.Interface:
		return first(t.NumMethods(), func(i int) types.Type { return t.Method(i).Type() })
	case *types.Struct:
		return first(t.NumFields(), func(i int) types.Type {
			if f := t.Field(i); f.Exported() {
				return f.Type()
			}
			return types.Typ[types.Invalid]
		})
	}
	return ""
}

func first(n int, at func(int) types.Type) string {
	for i := range n {
		if internal := internalIn(at(i)); internal != "" {
			return internal
		}
	}
	return ""
}
