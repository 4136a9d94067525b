package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// leanSchema has a table of members, and an audit table with a key and four indexes for
// the searches that the service offers.
const leanSchema = `
	create table lean_members as select workspace_id, member_id, user_id, email, role, approve_loops, joined_at from members;
	alter table lean_members add primary key (workspace_id, member_id);
	create unique index on lean_members (user_id, workspace_id);
	create table lean_audit (
		workspace_id uuid not null, id uuid not null, at timestamptz not null, action text not null,
		actor_id uuid not null, actor_name text not null, target_id uuid not null, target_name text not null,
		changes json not null, ip text not null, user_agent text not null, request_id text not null,
		primary key (workspace_id, id)
	);
	create index on lean_audit (workspace_id, at);
	create index on lean_audit (workspace_id, actor_id, at);
	create index on lean_audit (workspace_id, action, at);
	create index on lean_audit (workspace_id, target_id, at);
	analyze lean_members;`

// A leanServer is the baseline of role_change, a handler written for it alone: net/http and
// pgx, one look-up of session and membership, and one transaction in a batch.
type leanServer struct {
	db  *pgxpool.Pool
	log *slog.Logger
}

// serveLean serves the baseline at an address until ctx is done.
func serveLean(ctx context.Context, addr, databaseURL string) error {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return err
	}
	config.MaxConns = 24 // as svc-rest has
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer db.Close()
	s := &leanServer{db: db, log: slog.New(slog.NewJSONHandler(os.Stdout, nil))}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/live", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("PATCH /api/v1/members/{id}", s.withLog(s.changeRole))
	server := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// withLog turns handle into a handler with a deadline, a body limit and an access log.
func (s *leanServer) withLog(handle func(ctx context.Context, r *http.Request) (any, int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from := time.Now()
		ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		body, status := handle(ctx, r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
		s.log.InfoContext(ctx, "request", "method", r.Method, "path", r.URL.Path, "status", status, "took", time.Since(from))
	}
}

type leanCaller struct {
	user, workspace events.ID
	email, role     string
}

type leanMember struct {
	ID           events.ID  `json:"id"`
	UserID       events.ID  `json:"userId"`
	Name         string     `json:"name"`
	Email        string     `json:"email"`
	AvatarURL    string     `json:"avatarUrl"`
	Role         string     `json:"role"`
	ApproveLoops *bool      `json:"approveLoops"`
	LastActiveAt *time.Time `json:"lastActiveAt"`
	JoinedAt     time.Time  `json:"joinedAt"`
}

func leanRefusal(code string, status int) (any, int) { return map[string]string{"code": code}, status }

// changeRole handles PATCH /api/v1/members/{id} and returns the body and status of the answer.
func (s *leanServer) changeRole(ctx context.Context, r *http.Request) (any, int) {
	who, err := s.caller(ctx, r)
	if err != nil {
		return leanRefusal("unauthenticated", http.StatusUnauthorized)
	}
	if who.role != "Owner" {
		return leanRefusal("role_required", http.StatusForbidden)
	}
	id, err := events.ParseID(r.PathValue("id"))
	if err != nil {
		return leanRefusal("not_found", http.StatusNotFound)
	}
	var body struct {
		Role string `json:"role"`
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&body)
	if err != nil || decoder.Decode(&struct{}{}) != io.EOF || (body.Role != "Owner" && body.Role != "Maintainer" && body.Role != "Viewer") {
		return leanRefusal("invalid", http.StatusUnprocessableEntity)
	}
	m, err := s.change(ctx, r, who, id, body.Role)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return leanRefusal("last_owner", http.StatusConflict)
	case err != nil:
		s.log.ErrorContext(ctx, "change role", "err", err)
		return leanRefusal("internal", http.StatusInternalServerError)
	}
	return m, http.StatusOK
}

// caller looks up the session and its membership in one query.
func (s *leanServer) caller(ctx context.Context, r *http.Request) (who leanCaller, err error) {
	cookies := r.Cookies()
	if len(cookies) == 0 {
		return who, http.ErrNoCookie
	}
	token, _, _ := strings.Cut(cookies[0].Value, ".")
	hash := sha256.Sum256([]byte(token))
	err = s.db.QueryRow(ctx, `
		select u.user_id, m.workspace_id, u.email, m.role from sessions s
		join users u on u.user_id = s.user_id
		join lean_members m on m.user_id = s.user_id and m.workspace_id = s.active_workspace_id
		where s.token_hash = $1 and s.expires_at > now()`, hash[:]).Scan(&who.user, &who.workspace, &who.email, &who.role)
	return who, err
}

// change updates the member and inserts the audit row. It locks the row of the workspace, so
// that one Owner always remains.
func (s *leanServer) change(ctx context.Context, r *http.Request, who leanCaller, id events.ID, role string) (m leanMember, err error) {
	now := time.Now()
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(`select from workspaces where workspace_id = $1 for update`, who.workspace)
	b.Queue(`
		with was as (
			select role from lean_members where workspace_id = $1 and member_id = $2
		), changed as (
			update lean_members m set role = $3 from was where workspace_id = $1 and member_id = $2
				and (was.role <> 'Owner' or $3 = 'Owner' or exists (
				select from lean_members o where o.workspace_id = $1 and o.member_id <> $2 and o.role = 'Owner'))
			returning m.*, was.role as before
		), recorded as (
			insert into lean_audit
			select workspace_id, $4, $5, 'member.role_changed', $6, $7, member_id, email, json_build_object('role', json_build_array(before,
				role)), $8, $9, $10 from changed
		)
		select c.member_id, c.user_id, u.name, u.email, u.avatar_url, c.role, c.approve_loops, a.last_active_at, c.joined_at
		from changed c join users u on u.user_id = c.user_id
		left join member_activity a on a.workspace_id = c.workspace_id and a.user_id = c.user_id`,
		who.workspace, id, role, events.NewID(now), now, who.user, who.email, r.RemoteAddr, r.UserAgent(), events.NewID(now).String(),
	).QueryRow(func(row pgx.Row) error {
		return row.Scan(&m.ID, &m.UserID, &m.Name, &m.Email, &m.AvatarURL, &m.Role, &m.ApproveLoops, &m.LastActiveAt, &m.JoinedAt)
	})
	b.Queue("commit")
	return m, s.db.SendBatch(ctx, b).Close()
}
