package oncedynamo

import (
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/powertools"
)

// PowertoolsLanguage is an implementation of Powertools for AWS Lambda.
type PowertoolsLanguage string

// The languages.
const (
	Python     PowertoolsLanguage = "python"
	TypeScript PowertoolsLanguage = "typescript"
	Java       PowertoolsLanguage = "java"
)

// Powertools computes the keys under which Powertools for AWS Lambda has stored its records, and
// "once migrate powertools" their tokens. A service that moves from Powertools uses such a key as
// [once.MiddlewareConfig].Key or as the ID of a message, so that it finds the old replies.
type Powertools struct {
	// Language is that of the function. Required.
	Language PowertoolsLanguage
	// Prefix is the part of the keys in the table before the last '#'. In Python it is the name of
	// the Lambda function, a dot, the module, a dot and the qualified name of the decorated
	// function; or the key_prefix, if one is configured. Required.
	Prefix string
	// Hash is the hash_function of the configuration: md5, sha1, sha256 or sha512. Defaults to md5.
	Hash string
}

// ErrNoPowertoolsKey says that a payload has no value for a key. Powertools does not store such
// executions.
var ErrNoPowertoolsKey = powertools.ErrNoKey

// Key returns the key of a payload: the JSON of the value of event_key_jmespath, or of the whole
// event if there is no such expression. For headers."Idempotency-Key" that is the JSON text
// "order-1" with its quotes, for powertools_json(body) the body, and for body a JSON text.
//
// Python and TypeScript sort the names of fields, so the payload may have them in any order. Java
// does not: give them in the order in which the function writes its event. In Python, values of
// other types than those of json.loads, such as Decimal, may be texts in the JSON.
//
// The keys were compared with those of the libraries for Python and TypeScript. Those for Java
// follow its source.
func (p Powertools) Key(payload []byte) (string, error) {
	if p.Prefix == "" {
		return "", errors.New("powertools key: the prefix is empty")
	}
	key, err := powertools.Key(powertools.Language(p.Language), p.Prefix, p.Hash, payload)
	if err != nil {
		return "", fmt.Errorf("powertools key: %w", err)
	}
	return key, nil
}
