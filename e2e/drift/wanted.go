package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// wanted is one value in a template.
type wanted struct {
	path  string // Environment.Variables.TABLE; a * stands for any element of a list
	value *regexp.Regexp
}

// physical holds the names of created resources by logical id.
type physical map[string]string

// flatten returns the values of a property, at any depth.
func (p physical) flatten(path string, v any) []wanted {
	var all []wanted
	switch v := v.(type) {
	case map[string]any:
		if intrinsic(v) {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, p.flatten(path+"."+key, v[key])...)
		}
		return all
	case []any:
		for _, element := range v {
			all = append(all, p.flatten(path+".*", element)...)
		}
		return all
	}
	return []wanted{{path, regexp.MustCompile("^" + p.pattern(v) + "$")}}
}

// intrinsic reports whether a value is a function of CloudFormation.
func intrinsic(v map[string]any) bool {
	for key := range v {
		return len(v) == 1 && (key == "Ref" || strings.HasPrefix(key, "Fn::"))
	}
	return false
}

// pattern returns a regular expression for a value. A value that depends on the account may be
// anything but empty. The name of a resource is matched at the end, as in URLs and ARNs.
func (p physical) pattern(v any) string {
	const anything = ".+"
	f, ok := v.(map[string]any)
	if !ok {
		return regexp.QuoteMeta(scalar(v))
	}
	if id, ok := f["Ref"].(string); ok {
		return p.named(id)
	}
	if path, ok := f["Fn::GetAtt"].([]any); ok && len(path) == 2 && path[1] == "Arn" {
		return p.named(scalar(path[0]))
	}
	join, ok := f["Fn::Join"].([]any)
	if !ok || len(join) != 2 {
		return anything
	}
	parts, ok := join[1].([]any)
	if !ok {
		return anything
	}
	patterns := make([]string, len(parts))
	for i, part := range parts {
		patterns[i] = p.pattern(part)
	}
	return strings.Join(patterns, regexp.QuoteMeta(scalar(join[0])))
}

func (p physical) named(id string) string {
	name, ok := p[id]
	if !ok {
		return ".+"
	}
	return ".*" + regexp.QuoteMeta(name[strings.LastIndexAny(name, "/:")+1:])
}

// kept reports whether a deployed resource has a wanted value at a path.
func kept(there any, path []string, value *regexp.Regexp) bool {
	if len(path) == 0 {
		return value.MatchString(scalar(there)) || there == nil && value.MatchString("false")
	}
	switch there := there.(type) {
	case map[string]any:
		return kept(there[path[0]], path[1:], value)
	case []any:
		return path[0] == "*" && slices.ContainsFunc(there, func(element any) bool { return kept(element, path[1:], value) })
	}
	return there == nil && kept(nil, nil, value)
}

func scalar(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number, bool:
		return fmt.Sprint(v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
