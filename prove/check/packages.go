package main

import (
	"context"
	"maps"
	"path"
	"strings"
)

// testStep is the step that runs all tests of the root. With a colon and a folder behind it, it
// runs the tests of one package.
const testStep = "test"

// addTests adds the tests of the packages of the root that depend on a path that changed. If all
// tests run already, it takes the tests of single packages away.
func (t *tree) addTests(ctx context.Context, needed map[string]string, paths []string) error {
	if _, all := needed[testStep]; all {
		maps.DeleteFunc(needed, func(step, _ string) bool { return strings.HasPrefix(step, testStep+":") })
		return nil
	}
	packages, err := t.packages(ctx)
	if err != nil {
		return err
	}
	for _, name := range paths {
		changed := folderOf(packages, name)
		ownOnly := strings.HasSuffix(name, "_test.go") || has(path.Dir(name), "testdata")
		for folder, imported := range packages {
			if step := testStep + ":" + folder; needed[step] == "" && imported[changed] && (folder == changed || !ownOnly) {
				needed[step] = name + " changed"
			}
		}
	}
	return nil
}

// packages maps the folder of each package of the root to the folders that its tests import,
// directly or not, and its own. A package without tests has nil.
func (t *tree) packages(ctx context.Context) (map[string]map[string]bool, error) {
	list, err := t.command(ctx, "go", "list", "-test", "-f", `{{if not .ForTest}}{{.ImportPath}} {{join .Deps " "}}{{end}}`, "./...")
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]bool{}
	for line := range strings.Lines(list) {
		names := strings.Fields(line)
		if len(names) == 0 {
			continue
		}
		name, isTest := strings.CutSuffix(names[0], ".test") // the program that runs the tests
		imported := all[folderIn(name)]
		if isTest {
			imported = map[string]bool{}
			for _, name := range names[1:] {
				imported[folderIn(name)] = true
			}
		}
		all[folderIn(name)] = imported
	}
	return all, nil
}

// folderIn returns the folder of a package, from the root, or "other" if it is of another module.
func folderIn(name string) string {
	folder, ours := strings.CutPrefix(name+"/", module+"/")
	switch {
	case !ours:
		return "other"
	case folder == "":
		return "."
	}
	return strings.TrimSuffix(folder, "/")
}

// folderOf returns the folder of the package to which a file belongs, or nothing. To the package in
// the root belong only its own files and its data: other files there and in folders beside packages
// are claimed by paths.
func folderOf(packages map[string]map[string]bool, name string) string {
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		if _, ok := packages[folder]; ok {
			return folder
		}
	}
	if path.Ext(name) == ".go" && path.Dir(name) == "." || strings.HasPrefix(name, "testdata/") {
		return "."
	}
	return ""
}
