package roles

import "github.com/effectively-once/once/internal/config"

// anyCaller is a row of the table that asks for no role.
const anyCaller config.Roles = 0

// allowedTo returns the roles of which a caller needs one for a route, or for a header that does
// more than its route. Without a row, ok is false, and nobody may.
//
// The console and the admin API have no row: they ask for the key of operators. The SQS protocol is
// refused while callers are authenticated, and GET /healthz asks for nothing.
func allowedTo(route string) (roles config.Roles, ok bool) {
	switch route {
	case "POST /v1/streams/{stream}/messages",
		"POST /v1/streams/{stream}/batch",
		"GET /v1/streams/{stream}/messages/{id...}",
		"PUT /v1/streams/{stream}/requests/{id...}",
		"POST /v1/streams/{stream}/requests/{id...}",
		"DELETE /v1/streams/{stream}/requests/{id...}",
		"GET /v1/streams/{stream}/requests/{id...}",
		"POST /v1/streams/{stream}/epochs/{id...}",
		"PUT /v1/stream/{stream}/{group...}",
		"POST /v1/stream/{stream}/{group...}":
		return config.RoleSend, true
	case "GET /v1/streams/{stream}/groups",
		"GET /v1/streams/{stream}/groups/{group}/log",
		"GET /v1/stream/{stream}/{group...}",
		"GET /metrics":
		return config.RoleRead, true
	case "GET /v1/streams/{stream}/sessions",
		"GET /v1/streams/{stream}/sessions/{name}",
		"GET /v1/streams/{stream}/groups/{group}/sessions",
		"GET /v1/streams/{stream}/groups/{group}/sessions/{name}":
		return config.RoleRead | config.RoleConsume | config.RoleOperate, true
	case "POST /v1/streams/{stream}/sessions/{name}",
		"GET /v1/streams/{stream}/sessions/{name}/entries",
		"POST /v1/streams/{stream}/sessions/{name}/commit",
		"POST /v1/streams/{stream}/sessions/{name}/fail",
		"POST /v1/streams/{stream}/sessions/{name}/release",
		"POST /v1/streams/{stream}/sessions/{name}/renew",
		"POST /v1/streams/{stream}/groups/{group}/sessions/{name}",
		"GET /v1/streams/{stream}/groups/{group}/sessions/{name}/entries",
		"POST /v1/streams/{stream}/groups/{group}/sessions/{name}/commit",
		"POST /v1/streams/{stream}/groups/{group}/sessions/{name}/fail",
		"POST /v1/streams/{stream}/groups/{group}/sessions/{name}/release",
		"POST /v1/streams/{stream}/groups/{group}/sessions/{name}/renew":
		return config.RoleConsume, true
	case "POST /v1/streams/{stream}/sessions/{name}/retire",
		"POST /v1/streams/{stream}/groups/{group}/sessions/{name}/retire":
		return config.RoleConsume | config.RoleOperate, true
	case "POST /v1/streams/{stream}/end",
		"DELETE /v1/stream/{stream}/{group...}",
		"Once-End", "Stream-Closed", "Stream-TTL", "Stream-Expires-At":
		return config.RoleOperate, true
	case "GET /healthz", "GET /openapi.json", "OPTIONS /v1/stream/{stream}/{group...}":
		return anyCaller, true
	}
	return 0, false
}
