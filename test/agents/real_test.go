//go:build agents

package agents

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "keep what real agents print as the envelopes of the other tests")

// TestRealAgents runs agents in the folder that SVC_AGENTS names against a model server on loopback, which has them change a file, or
// refuses their requests.
func TestRealAgents(t *testing.T) {
	bin := os.Getenv("SVC_AGENTS")
	for name, c := range map[string]struct{ program, status string }{
		"claude-code/done": {"claude", "done"}, "claude-code/429": {"claude", "unavailable"},
		"codex/done": {"codex", "done"}, "codex/429": {"codex", "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.FileExists(t, filepath.Join(bin, c.program))
			tool, mode, _ := strings.Cut(name, "/")
			server := httptest.NewServer(model{t, mode == "429"})
			defer server.Close()
			j := newJob(t, "ANTHROPIC_API_KEY=sk-ant-none", "ANTHROPIC_BASE_URL="+server.URL, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
				"CLAUDE_CODE_MAX_RETRIES=1", "CODEX_API_KEY=none")
			j.environ[0] = "PATH=" + bin + ":" + os.Getenv("PATH")
			home := filepath.Join(filepath.Dir(j.dir), "home", ".codex")
			require.NoError(t, os.MkdirAll(home, 0o700))
			config := fmt.Sprintf("model = \"gpt-5\"\nmodel_provider = \"here\"\n[model_providers.here]\nname = \"here\"\nbase_url = \"%s/v1\"\n"+
				"env_key = \"CODEX_API_KEY\"\nwire_api = \"responses\"\nrequest_max_retries = 1\nstream_max_retries = 1\n", server.URL)
			require.NoError(t, os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600))
			require.NoError(t, os.WriteFile(j.dir+"/words.txt", []byte("two\n"), 0o600))
			cmd := j.command(t, tool)
			text, err := cmd.CombinedOutput()
			require.NoError(t, err, string(text))
			if *update {
				kept := strings.ReplaceAll(string(text), filepath.Dir(j.dir), "")
				require.NoError(t, os.WriteFile(filepath.Join(examples, "testdata", name+".txt"), []byte(kept), 0o600))
			}
			o := j.outcome(t)
			require.NotNil(t, o, string(text))
			require.Equal(t, c.status, o.Status, "%+v %s", o, text)
			words, err := os.ReadFile(j.dir + "/words.txt")
			require.NoError(t, err)
			require.Equal(t, map[string]string{"done": "deux\n", "unavailable": "two\n"}[c.status], string(words), string(text))
			require.Equal(t, c.status == "done", o.Cost.InputTokens > 0, "%+v", o.Cost)
		})
	}
}

// A model answers requests of Anthropic's and OpenAI's interfaces: first with a command, and once that has run with a word.
type model struct {
	t       *testing.T
	limited bool
}

const change = "echo deux >words.txt"

func (m model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.t.Logf("%s %s %d bytes", r.Method, r.URL.Path, len(body))
	var in struct {
		Stream bool
		Tools  []struct{ Type, Name string }
	}
	_ = json.Unmarshal(body, &in)
	tools := map[string]bool{}
	for _, tool := range in.Tools {
		tools[tool.Name+tool.Type] = true
		tools[tool.Name] = true
	}
	ran := strings.Contains(string(body), `"tool_result"`) || strings.Contains(string(body), `"function_call_output"`)
	switch {
	case r.Method != http.MethodPost:
		http.NotFound(w, r)
	case m.limited:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Should-Retry", "false")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit."}}`)
	case strings.HasSuffix(r.URL.Path, "/responses"):
		m.respond(w, tools, ran)
	case strings.HasSuffix(r.URL.Path, "/messages"):
		m.message(w, in.Stream, tools["Bash"] && !ran)
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		_, _ = io.WriteString(w, `{"input_tokens":100}`)
	default:
		http.NotFound(w, r)
	}
}

// message answers like POST /v1/messages.
func (model) message(w http.ResponseWriter, stream, command bool) {
	content, stop := any(map[string]any{"type": "text", "text": "Done."}), "end_turn"
	if command {
		content, stop = map[string]any{"type": "tool_use", "id": "toolu_1", "name": "Bash",
			"input": map[string]string{"command": change, "description": "Say deux"}}, "tool_use"
	}
	whole := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []any{content},
		"stop_reason": stop, "stop_sequence": nil, "usage": map[string]int{"input_tokens": 1000, "output_tokens": 50}}
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(whole)
		return
	}
	start, delta := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": "Done."}
	if command {
		input, _ := json.Marshal(map[string]string{"command": change, "description": "Say deux"})
		start = map[string]any{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": map[string]any{}}
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
	}
	whole["content"], whole["stop_reason"] = []any{}, nil
	events(w,
		map[string]any{"type": "message_start", "message": whole},
		map[string]any{"type": "content_block_start", "index": 0, "content_block": start},
		map[string]any{"type": "content_block_delta", "index": 0, "delta": delta},
		map[string]any{"type": "content_block_stop", "index": 0},
		map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": stop, "stop_sequence": nil},
			"usage": map[string]int{"output_tokens": 50}},
		map[string]any{"type": "message_stop"},
	)
}

// respond answers like POST /v1/responses.
func (model) respond(w http.ResponseWriter, tools map[string]bool, ran bool) {
	item := map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": "Done.", "annotations": []any{}}}}
	if !ran {
		name, input := "shell", any(map[string]any{"command": []string{"sh", "-c", change}})
		switch {
		case tools["exec_command"]:
			name, input = "exec_command", map[string]string{"cmd": change}
		case tools["shell_command"]:
			name, input = "shell_command", map[string]string{"command": change}
		}
		arguments, _ := json.Marshal(input)
		item = map[string]any{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": string(arguments)}
	}
	events(w,
		map[string]any{"type": "response.created", "response": map[string]any{"id": "resp_1"}},
		map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item},
		map[string]any{"type": "response.completed", "response": map[string]any{"id": "resp_1", "usage": map[string]any{
			"input_tokens": 1000, "input_tokens_details": map[string]int{"cached_tokens": 0}, "output_tokens": 50,
			"output_tokens_details": map[string]int{"reasoning_tokens": 0}, "total_tokens": 1050}}},
	)
}

// events sends server-sent events, named after their type.
func events(w http.ResponseWriter, list ...map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range list {
		data, _ := json.Marshal(e)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], data)
	}
}
