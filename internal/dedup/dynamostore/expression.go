package dynamostore

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// An expression collects the changes and conditions of an update. Every name has an alias, because
// some names are reserved in DynamoDB, and numbers can't be written as names. Aliases are short
// because an expression is limited to 4 KB.
type expression struct {
	names      map[string]string // alias to name
	aliases    map[string]string // name to alias
	values     item
	sets       []string
	removes    []string
	conditions []string
}

func newExpression() *expression {
	return &expression{names: map[string]string{}, aliases: map[string]string{}, values: item{}}
}

// path returns a document path.
func (x *expression) path(names ...string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		alias, ok := x.aliases[name]
		if !ok {
			alias = "#" + strconv.Itoa(len(x.aliases))
			x.aliases[name], x.names[alias] = alias, name
		}
		parts[i] = alias
	}
	return strings.Join(parts, ".")
}

func (x *expression) value(v types.AttributeValue) string {
	alias := ":" + strconv.Itoa(len(x.values))
	x.values[alias] = v
	return alias
}

// set writes a value, or removes the attribute if the value is nil.
func (x *expression) set(v types.AttributeValue, names ...string) {
	if v == nil {
		x.removes = append(x.removes, x.path(names...))
		return
	}
	x.sets = append(x.sets, x.path(names...)+"="+x.value(v))
}

func (x *expression) equal(v types.AttributeValue, names ...string) {
	x.conditions = append(x.conditions, x.path(names...)+"="+x.value(v))
}

func (x *expression) exists(names ...string) {
	x.conditions = append(x.conditions, "attribute_exists("+x.path(names...)+")")
}

func (x *expression) missing(names ...string) {
	x.conditions = append(x.conditions, "attribute_not_exists("+x.path(names...)+")")
}

// size requires a map to have n entries.
func (x *expression) size(n int, name string) {
	x.conditions = append(x.conditions, "size("+x.path(name)+")="+x.value(integer(int64(n))))
}

// notAfter requires that a time, if there is one, is not after another one.
func (x *expression) notAfter(at time.Time, name string) {
	x.conditions = append(x.conditions, "(attribute_not_exists("+x.path(name)+") OR "+x.path(name)+"<="+x.value(instant(at))+")")
}

// keeps requires a record with that retention.
func (x *expression) keeps(d time.Duration) {
	if d > 0 {
		x.equal(keepFor(d), attrRetention)
		return
	}
	x.conditions = append(x.conditions, "(attribute_not_exists("+x.path(attrRetention)+") OR "+x.path(attrRetention)+">="+x.value(keepFor(0))+")")
}

// live requires an item that has not expired.
func (x *expression) live(now int64) {
	at := x.path(attrExpires)
	x.conditions = append(x.conditions, "(attribute_not_exists("+at+") OR "+at+">"+x.value(integer(now))+")")
}

// absent requires that there is no item, or an expired one.
func (x *expression) absent(now int64) {
	x.conditions = append(x.conditions, "(attribute_not_exists("+x.path(attrPK)+") OR "+x.path(attrExpires)+"<="+x.value(integer(now))+")")
}

func (x *expression) update() *string {
	var parts []string
	if len(x.sets) > 0 {
		parts = append(parts, "SET "+strings.Join(x.sets, ","))
	}
	if len(x.removes) > 0 {
		parts = append(parts, "REMOVE "+strings.Join(x.removes, ","))
	}
	return aws.String(strings.Join(parts, " "))
}

func (x *expression) condition() *string { return aws.String(strings.Join(x.conditions, " AND ")) }
