package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"svc/config"
)

// environment has the settings that flags may override.
type environment struct {
	Host     string        `env:"SVC_DB_HOST" doc:"Database host, or the folder of its socket."`
	Port     uint16        `env:"SVC_DB_PORT" envDefault:"5432" doc:"Database port."`
	Name     string        `env:"SVC_DB_NAME" envDefault:"svc" doc:"Database name."`
	User     string        `env:"SVC_DB_USER" doc:"Database user."`
	Password config.Secret `env:"SVC_DB_PASSWORD" doc:"Password of the database user."`

	VaultKeys []config.Secret `env:"SVC_VAULT_MASTER_KEY" doc:"replace-key and -seed: the key of the services."`
}

// keys returns the vault's keys, which only what appends to logs requires.
func (o options) keys(env environment) ([]config.Secret, error) {
	if len(env.VaultKeys) > 0 {
		return env.VaultKeys, nil
	}
	switch {
	case o.command == "replace-key":
		return nil, errors.New("replace-key needs SVC_VAULT_MASTER_KEY, the key that the services have from now on")
	case o.seed != "":
		return nil, errors.New("-seed needs SVC_VAULT_MASTER_KEY, the key of the services, which sign no event that was appended without it")
	}
	return nil, nil
}

// errUnreadable does not quote the address, because a malformed one may contain the password
// anywhere.
var errUnreadable = errors.New("the database address cannot be read; " +
	"want postgres://user:password@host:port/database or jdbc:postgresql://host:port/database?user=U&password=P, " +
	"with special characters percent-encoded and the ssl settings (in it or in PGSSL... variables) valid")

// A setting is one parameter of an address. If a name occurs several times, the last one counts.
type setting struct{ name, value string }

// address returns the URL of the database. -url replaces host, port and name. User and password
// come from -user and -password, else from the URL, else from the environment.
func (o options) address(env environment) (config.Secret, error) {
	place, own := env.hostPortName(), []setting(nil)
	if raw := o.url.Reveal(); raw != "" {
		var err error
		if place, own, err = split(raw); err != nil {
			return "", err
		}
	} else if missing := o.missing(env); len(missing) > 0 {
		return "", noAddress(missing)
	}
	settings := []setting{
		{"application_name", "svc-db"},
		{"connect_timeout", "10"},
		{"user", env.User},
		{"password", env.Password.Reveal()},
	}
	settings = append(settings, own...)
	settings = append(settings, setting{"user", o.user}, setting{"password", o.password.Reveal()})
	return config.Secret("postgresql://" + place + "?" + encode(settings)), nil
}

// A noAddress lists the variables that must be set.
type noAddress []string

func (e noAddress) Error() string {
	return fmt.Sprintf("Unable to connect to the database. Configure the url, user and password!\n"+
		"Not set: %s. Set them, or pass -url=, -user= and -password=.", strings.Join(e, ", "))
}

func (o options) missing(env environment) []string {
	var names []string
	if env.Host == "" {
		names = append(names, "SVC_DB_HOST")
	}
	if env.User == "" && o.user == "" {
		names = append(names, "SVC_DB_USER")
	}
	if env.Password == "" && o.password == "" {
		names = append(names, "SVC_DB_PASSWORD")
	}
	return names
}

// hostPortName returns host, port and name in URL form.
func (env environment) hostPortName() string {
	return fmt.Sprintf("%s:%d/%s", escape(env.Host), env.Port, escape(env.Name))
}

// split splits a URL into what is between user and parameters, and the settings.
func split(raw string) (place string, own []setting, err error) {
	rest, jdbc := strings.CutPrefix(raw, "jdbc:")
	scheme, rest, _ := strings.Cut(rest, "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return "", nil, errUnreadable
	}
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' {
		user, password, _ := strings.Cut(rest[:i], ":")
		own, rest = append(own, setting{"user", user}, setting{"password", password}), rest[i+1:]
	}
	place, query, _ := strings.Cut(rest, "?")
	// An @ left over means that the password contained an unescaped @ or /.
	if strings.Contains(place, "@") {
		return "", nil, errUnreadable
	}
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return "", nil, errUnreadable
		}
		if jdbc {
			name, value = jdbcName(name), strings.ReplaceAll(value, "+", "%20")
		}
		own = append(own, setting{name, value})
	}
	for i, s := range own {
		name, bad1 := url.PathUnescape(s.name)
		value, bad2 := url.PathUnescape(s.value)
		if bad1 != nil || bad2 != nil {
			return "", nil, errUnreadable
		}
		own[i] = setting{name, value}
	}
	return place, own, nil
}

// jdbcName translates parameter names of the JDBC driver.
func jdbcName(name string) string {
	switch name {
	case "currentSchema":
		return "search_path"
	case "ApplicationName":
		return "application_name"
	case "connectTimeout", "loginTimeout":
		return "connect_timeout"
	}
	return name
}

func encode(settings []setting) string {
	var pairs []string
	for _, s := range settings {
		if s.value != "" {
			pairs = append(pairs, escape(s.name)+"="+escape(s.value))
		}
	}
	return strings.Join(pairs, "&")
}

// escape percent-encodes text. PostgreSQL does not read + as a space.
func escape(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}
