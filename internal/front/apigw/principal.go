package apigw

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/roles"
)

// caller is the identity that the gateway established for a request, never one that the request
// claims.
type caller struct {
	id, principal string
	claims        map[string]any // of a token; nil without one
}

type callerKey struct{}

// Principal returns the sender of a request, as the gateway's authorizer established it, or "" if
// the API has no authorizer. It fits api.Options.Principal. The kinds have prefixes, so that one
// can't pass for another:
//
//	iam:ARN           IAM authorization; a role's sessions are one principal, because a repetition may come from the next session
//	cognito:ID        IAM authorization by the role of an identity pool, which its users share: the identity within the pool
//	jwt:ISSUER#SUB    a JWT or Cognito authorizer
//	custom:ID         the principalId of a Lambda authorizer
//	key:ID            the id of an API key, if there is no better one
//
// If it is longer than 200 bytes, it is replaced by its hash.
func Principal(r *http.Request) (string, error) {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c.principal, nil
}

// RequestID returns the gateway's id of a request, as in its access log. It fits
// api.Options.RequestID.
func RequestID(r *http.Request) string {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c.id
}

// Allow returns the check of a configuration with roles, for api.Options.Allow, and nil for
// another one. A token has the roles of its claim if the configuration names the claim and its
// issuer. Other callers have an entry under their principal, or may only send.
func Allow(c *config.Server) func(r *http.Request, route, stream string) error {
	if !c.HasRoles() {
		return nil
	}
	return func(r *http.Request, route, stream string) error {
		of, _ := r.Context().Value(callerKey{}).(caller)
		known := roles.Caller{Principal: of.principal, All: true, Grants: c.Auth.GrantsOf(of.principal)}
		if o := c.Auth.OIDC; o != nil && o.Roles != "" && of.claims["iss"] == o.Issuer {
			known = roles.ByClaims(o, of.principal, of.claims)
		}
		return roles.Allow(roles.With(r, known, func() {}), route, stream)
	}
}

func claimsV1(c events.APIGatewayProxyRequestContext) map[string]any {
	if jwt, ok := c.Authorizer["jwt"].(map[string]any); ok { // an HTTP API in payload format 1.0
		claims, _ := jwt["claims"].(map[string]any)
		return claims
	}
	claims, _ := c.Authorizer["claims"].(map[string]any)
	return claims
}

func claimsV2(c events.APIGatewayV2HTTPRequestContext) map[string]any {
	if c.Authorizer == nil || c.Authorizer.JWT == nil {
		return nil
	}
	claims := make(map[string]any, len(c.Authorizer.JWT.Claims))
	for name, value := range c.Authorizer.JWT.Claims {
		claims[name] = value
	}
	return claims
}

func principalV1(c events.APIGatewayProxyRequestContext) string {
	claims := claimsV1(c)
	if c.Identity.CognitoIdentityID != "" {
		return cognito(c.Identity.CognitoIdentityID)
	}
	return principal(c.Identity.UserArn, text(claims["iss"]), text(claims["sub"]), text(c.Authorizer["principalId"]), c.Identity.APIKeyID)
}

func principalV2(c events.APIGatewayV2HTTPRequestContext) string {
	a := c.Authorizer
	if a == nil {
		return ""
	}
	var arn, issuer, subject string
	if a.IAM != nil {
		if id := a.IAM.CognitoIdentity.IdentityID; id != "" {
			return cognito(id)
		}
		arn = a.IAM.UserARN
	}
	if a.JWT != nil {
		issuer, subject = a.JWT.Claims["iss"], a.JWT.Claims["sub"]
	}
	return principal(arn, issuer, subject, text(a.Lambda["principalId"]), "")
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func principal(arn, issuer, subject, custom, key string) string {
	switch {
	case arn != "":
		return IAMPrincipal(arn)
	case subject != "":
		return short("jwt:" + issuer + "#" + subject)
	case custom != "":
		return short("custom:" + custom)
	case key != "":
		return short("key:" + key)
	}
	return ""
}

// IAMPrincipal returns the principal of the owner of IAM credentials, by the ARN of the user or
// role.
func IAMPrincipal(arn string) string { return short("iam:" + withoutSession(arn)) }

func cognito(identity string) string { return short("cognito:" + identity) }

// withoutSession cuts the session off the ARN of an assumed role:
// arn:aws:sts::1:assumed-role/NAME/SESSION.
func withoutSession(arn string) string {
	if !strings.Contains(arn, ":assumed-role/") || strings.Count(arn, "/") < 2 {
		return arn
	}
	return arn[:strings.LastIndexByte(arn, '/')]
}

// maxPrincipal is below the limit on names.
const maxPrincipal = 200

func short(p string) string {
	if len(p) <= maxPrincipal {
		return p
	}
	kind, _, _ := strings.Cut(p, ":")
	sum := sha256.Sum256([]byte(p))
	return kind + ":sha256:" + hex.EncodeToString(sum[:])
}
