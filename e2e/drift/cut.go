package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cut copies a synthesized app to a folder, without the resources of the types that the list of
// expected differences has without a property: an emulator refuses a template with a type that it
// does not know. Properties of other resources that refer to them are left out too.
func cut(app, to string, expected map[string]string) error {
	if err := os.CopyFS(to, os.DirFS(app)); err != nil {
		return fmt.Errorf("copy app: %w", err)
	}
	files, err := templates(to)
	if err != nil {
		return err
	}
	for _, file := range files {
		var template map[string]any
		if err := readJSON(file, &template); err != nil {
			return err
		}
		cutTemplate(template, expected)
		text, err := json.Marshal(template)
		if err != nil {
			return fmt.Errorf("encode %s: %w", file, err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return fmt.Errorf("write template: %w", err)
		}
	}
	return nil
}

// templates returns the paths of the templates of an app.
func templates(app string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(app, "*.template.json"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("read app %s: it has no template", app)
	}
	return files, err
}

// cutTemplate deletes the resources of refused types from a template.
func cutTemplate(template map[string]any, expected map[string]string) {
	resources, _ := template["Resources"].(map[string]any)
	gone := map[string]bool{}
	for id, r := range resources {
		kind, _ := r.(map[string]any)["Type"].(string)
		if _, refused := expected[kind]; refused {
			gone[id] = true
			delete(resources, id)
		}
	}
	for _, r := range resources {
		r, _ := r.(map[string]any)
		if list, ok := r["DependsOn"].([]any); ok {
			r["DependsOn"] = slices.DeleteFunc(list, func(id any) bool { return gone[fmt.Sprint(id)] })
		} else if gone[fmt.Sprint(r["DependsOn"])] {
			delete(r, "DependsOn")
		}
		properties, _ := r["Properties"].(map[string]any)
		for name, value := range properties {
			if refers(value, gone) {
				delete(properties, name)
			}
		}
	}
}

// refers reports whether a value refers to one of the resources.
func refers(v any, gone map[string]bool) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return refers(element, gone) })
	case map[string]any:
		if id, ok := v["Ref"].(string); ok && gone[id] {
			return true
		}
		if id := attributeOf(v); id != "" && gone[id] {
			return true
		}
		for _, element := range v {
			if refers(element, gone) {
				return true
			}
		}
	}
	return false
}

// attributeOf returns the resource of an Fn::GetAtt, which has two forms.
func attributeOf(v map[string]any) string {
	switch at := v["Fn::GetAtt"].(type) {
	case string:
		id, _, _ := strings.Cut(at, ".")
		return id
	case []any:
		if len(at) > 0 {
			return fmt.Sprint(at[0])
		}
	}
	return ""
}
