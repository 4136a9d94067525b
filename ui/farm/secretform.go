package farm

import (
	"slices"
	"strings"

	"svc/ui/client"
	"svc/ui/page"
)

// A secretForm is the form that sets or changes a secret, without the value.
type secretForm struct {
	name    string
	shows   string // name of the secret whose scope the form was filled with; "" if it is for a new secret
	jobs    string // one name a line
	repos   []string
	labels  string
	refused map[string]string // what is wrong, by field
}

// formOf returns the form that changes a secret, or an empty one with its name if there is no such secret.
func (s secretsData) formOf(name string) secretForm {
	i := slices.IndexFunc(s.List.Items, func(f client.FarmSecret) bool { return f.Name == name })
	if i < 0 {
		return secretForm{name: name}
	}
	scope := s.List.Items[i].Scope
	return secretForm{
		name: name, shows: name, jobs: strings.Join(listed(scope.Jobs), "\n"), repos: listed(scope.Repos),
		labels: strings.Join(listed(scope.Labels), ", "),
	}
}

func listed(list *[]string) []string {
	if list == nil {
		return nil
	}
	return *list
}

func postedSecret(v *page.Visit) secretForm {
	return secretForm{
		name: strings.TrimSpace(v.PostFormValue("name")), shows: v.PostFormValue("shows"), jobs: v.PostFormValue("jobs"),
		repos: v.PostForm["repo"], labels: v.PostFormValue("labels"),
	}
}

// isChange reports whether the form was filled with the scope of the secret that it sets.
func (f secretForm) isChange() bool { return f.shows != "" && f.shows == f.name }

// scope returns which jobs may use the secret, nil for those that already may: a form that was left empty, and does not
// show the scope of the secret, must not widen that.
func (f secretForm) scope() *client.SecretScope {
	var scope client.SecretScope
	for line := range strings.SplitSeq(f.jobs, "\n") {
		if name := strings.TrimSpace(line); name != "" {
			scope.Jobs = withItem(scope.Jobs, name)
		}
	}
	for _, id := range f.repos {
		scope.Repos = withItem(scope.Repos, id)
	}
	for _, label := range splitLabels(f.labels) {
		scope.Labels = withItem(scope.Labels, label)
	}
	if scope == (client.SecretScope{}) && !f.isChange() {
		return nil
	}
	return &scope
}

func withItem(list *[]string, item string) *[]string { return new(append(listed(list), item)) }

// A scopeRepo is a repository that the form offers.
type scopeRepo struct {
	id, name string
	chosen   bool
}

// scopeRepos returns the repositories that the form offers: all, and those of the scope that are not known any more.
func (s secretsData) scopeRepos() (list []scopeRepo) {
	for _, r := range s.Repos {
		list = append(list, scopeRepo{r.Id, scopeName(r), slices.Contains(s.Form.repos, r.Id)})
	}
	for _, id := range s.Form.repos {
		if !slices.ContainsFunc(list, func(r scopeRepo) bool { return r.id == id }) {
			list = append(list, scopeRepo{id, id, true})
		}
	}
	return list
}

// scopeName returns the name of a repository, which a connected one and one that only jobs and runs name may share.
func scopeName(r client.RepoRuns) string {
	if r.Status == client.RepoRunsStatusUnconnected {
		return r.Name + " (unconnected)"
	}
	return r.Name
}

// scopeText says which jobs may use a secret.
func (s secretsData) scopeText(scope client.SecretScope) string {
	var only []string
	if scope.Jobs != nil {
		only = append(only, "named "+strings.Join(*scope.Jobs, " or "))
	}
	if scope.Repos != nil {
		names := slices.Clone(*scope.Repos)
		for i, id := range names {
			if at := slices.IndexFunc(s.Repos, func(r client.RepoRuns) bool { return r.Id == id }); at >= 0 {
				names[i] = scopeName(s.Repos[at])
			}
		}
		only = append(only, "of "+strings.Join(names, " or "))
	}
	if scope.Labels != nil {
		only = append(only, "that require "+strings.Join(*scope.Labels, " and "))
	}
	if only == nil {
		return "For every job"
	}
	return "Only for jobs " + strings.Join(only, ", ")
}
