package resolver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/porttest"
)

func TestAPI(t *testing.T) {
	var stale atomic.Bool
	g := newRig(t, func(o *Options) { o.Health = func() (fleet.Generation, bool) { return 7, stale.Load() } })
	bind, api := porttest.Address(t), porttest.Address(t)
	g.apply(registry{
		generation: 7, api: api, adapters: []fleet.Adapter{adapterOf("web", bind), adapterOf("loop", porttest.Address(t))},
		endpoints: map[fleet.ServiceName]string{"web": serve(t, named("web")), "db": "tcp://127.0.0.1:1", "loop": "http://" + api},
	}.snapshot(), "a1")
	tests := []struct {
		method, path, consumer string
		stale                  bool
		code                   int
		body                   string
	}{
		{"GET", "/health", "", false, 200, `{"status":"ok","service":"stado-resolver","generation":7}`},
		{"GET", "/health", "", true, 503, `{"status":"stale","service":"stado-resolver","generation":7}`},
		{"GET", "/v1/resolve/service/web", "shop", false, 200, `{"service":"stado://service/web","generation":7,"gateway_url":"http://` + bind + `","capabilities":["read"]}`},
		{"GET", "/v1/resolve/service/db", "shop", false, 200, `{"service":"stado://service/db","generation":7,"gateway_url":null,"capabilities":["read"]}`},
		{"GET", "/v1/resolve/service/web", "", false, 401, `{"error":"consumer_required"}`},
		{"GET", "/v1/resolve/service/we%20b", "shop", false, 400, `{"error":"invalid_service"}`},
		{"GET", "/v1/resolve/service/a/b", "shop", false, 400, `{"error":"invalid_service"}`},
		{"GET", "/v1/resolve/service/", "shop", false, 400, `{"error":"invalid_service"}`},
		{"GET", "/v1/other", "shop", false, 404, `{"error":"not_found"}`},
		{"POST", "/health", "", false, 405, `{"error":"method_not_allowed"}`},
		{"DELETE", "/v1/resolve/service/web", "shop", false, 405, `{"error":"method_not_allowed"}`},
		{"GET", "/v1/resolve/service/none", "shop", false, 503, `{"error":"unknown logical service \"none\""}`},
		{"GET", "/v1/resolve/service/web", "thief", false, 503, `{"error":"consumer \"thief\" is not authorized for service \"web\""}`},
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, tt := range tests {
		stale.Store(tt.stale)
		code, body, header := request(t, client, tt.method, "http://"+api+tt.path, tt.consumer)
		if code != tt.code || body != tt.body {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, code, body, tt.code, tt.body)
		}
		if header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", tt.method, tt.path, header)
		}
	}
	// Consumers learn nothing of hosts, operators everything.
	code, body, _ := request(t, client, "GET", "http://"+api+"/v1/resolve/service/loop", "shop")
	if code != 503 || body != `{"error":"service loop leads to nothing that can serve it; `+"`stado resolver status`"+` on this machine says why"}` {
		t.Errorf("%d %s", code, body)
	}
	full := "service loop resolves to http://" + api + ", which is the resolver API (" + api + ") of this resolver on a1: "
	if !strings.Contains(g.log.String(), "stado resolver service=loop consumer=shop not resolved: "+full) {
		t.Errorf("the log lacks the cause\n%s", g.log)
	}
	for _, c := range g.document().Candidates {
		if c.Service == "loop" && !strings.HasPrefix(c.Reason, full) {
			t.Errorf("the status lacks the cause: %+v", c)
		}
	}
	if code, _, _ := request(t, client, "GET", "http://"+api+"/health", strings.Repeat("x", 20<<10)); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a head of 20 KiB: %d", code)
	}
	raw := dial(t, api)
	if _, err := io.WriteString(raw, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(raw) // one request per connection
	if err != nil || !strings.Contains(string(answer), "Connection: close\r\n") {
		t.Errorf("%q, %v", answer, err)
	}
}

// Without routes a consumer learns that, and not which host this is.
func TestAPIWithoutRoutes(t *testing.T) {
	g := newRig(t, nil)
	g.apply(registry{generation: 1, api: porttest.Address(t)}.snapshot(), "z9")
	answer := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/v1/resolve/service/web", http.NoBody)
	req.Header.Set(consumerHeader, "shop")
	g.resolver.answer(answer, req)
	if answer.Code != http.StatusServiceUnavailable || strings.TrimSpace(answer.Body.String()) != `{"error":"`+sayNoTable+`"}` {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if doc := g.document(); !strings.Contains(doc.Reason, "z9") {
		t.Errorf("the status does not say which host: %s", doc.Reason)
	}
}

func request(t *testing.T, client *http.Client, method, url, consumer string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if consumer != "" {
		req.Header.Set(consumerHeader, consumer)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(body)), resp.Header
}

// The API moves with its bind, and a taken address is reported and tried again.
func TestAPIMoves(t *testing.T) {
	g := newRig(t, nil)
	first, second := porttest.Address(t), porttest.Address(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, api := range []string{first, second, first} {
		g.apply(registry{generation: 3, api: api}.snapshot(), "a1")
		if code, body, _ := request(t, client, "GET", "http://"+api+"/health", ""); code != 200 || !strings.Contains(body, `"generation":3`) {
			t.Errorf("%d %s", code, body)
		}
		if doc := g.document(); doc.API.Bind != api || !doc.API.Listening || !doc.Listening {
			t.Errorf("%+v", doc.API)
		}
	}
	g.apply(registry{generation: 4, api: "nowhere"}.snapshot(), "a1")
	if doc := g.document(); doc.API.Listening || doc.Listening || !strings.Contains(doc.API.Problem, "the resolver API of a1 has no address") {
		t.Errorf("%+v", doc.API)
	}
}
