package codehost

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"svc/dev/codehost/bare"
)

func (v *visit) branchHead(name string) (string, error) {
	if !bare.IsBranch(name) {
		return "", &apiError{status: http.StatusNotFound, message: "Branch not found"}
	}
	id, err := v.repo.bare.Ref(v.Context(), "refs/heads/"+name)
	return id, missing(err, &apiError{status: http.StatusNotFound, message: "Branch not found"})
}

func listBranches(v *visit) (int, any, error) {
	refs, err := v.repo.bare.Refs(v.Context())
	if err != nil {
		return 0, nil, err
	}
	list := []object{}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if short, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			list = append(list, object{
				"name": short, "commit": object{"sha": refs[name], "url": v.in("/commits/%s", refs[name])}, "protected": len(v.repo.Rules) > 0,
			})
		}
	}
	return http.StatusOK, paged(v, list), nil
}

// getBranch answers a branch, or its protection, which no branch has: rules protect them.
func getBranch(v *visit) (int, any, error) {
	name, protection := strings.CutSuffix(v.PathValue("branch"), "/protection")
	id, err := v.branchHead(name)
	if err != nil {
		return 0, nil, err
	}
	if protection {
		return 0, nil, &apiError{status: http.StatusNotFound, message: "Branch not protected"}
	}
	commit, err := v.commit(id)
	if err != nil {
		return 0, nil, err
	}
	in := v.in("/branches/%s", escaped(name))
	checks := object{"enforcement_level": "off", "contexts": []string{}, "checks": []object{}}
	return http.StatusOK, object{
		"name": name, "commit": commit, "_links": object{"self": in, "html": v.web("/tree/%s", escaped(name))},
		"protected":  len(v.repo.Rules) > 0,
		"protection": object{"enabled": false, "required_status_checks": checks}, "protection_url": in + "/protection",
	}, nil
}

func getRules(v *visit) (int, any, error) { return http.StatusOK, paged(v, v.repo.Rules), nil }

func (v *visit) ref(name, id string) object {
	return object{
		"ref": name, "node_id": nodeID("Ref", v.repo.ID), "url": v.in("/git/%s", escaped(name)),
		"object": object{"sha": id, "type": "commit", "url": v.in("/git/commits/%s", id)},
	}
}

// refName returns the full name of the ref in the path, which GitHub writes as heads/main.
func (v *visit) refName() (string, error) {
	name, ok := strings.CutPrefix(v.PathValue("ref"), "heads/")
	if !ok || !bare.IsBranch(name) {
		return "", errNotFound
	}
	return "refs/heads/" + name, nil
}

func getRef(v *visit) (int, any, error) {
	name, err := v.refName()
	if err != nil {
		return 0, nil, err
	}
	id, err := v.repo.bare.Ref(v.Context(), name)
	if err != nil {
		return 0, nil, missing(err, errNotFound)
	}
	return http.StatusOK, v.ref(name, id), nil
}

func createRef(v *visit) (int, any, error) {
	var in struct{ Ref, SHA string }
	if err := v.read(&in); err != nil {
		return 0, nil, err
	}
	name, ok := strings.CutPrefix(in.Ref, "refs/heads/")
	if !ok || !bare.IsBranch(name) {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity, message: "Reference name must start with 'refs/heads/'."}
	}
	if !bare.IsID(in.SHA) {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity,
			message: "The sha parameter must be exactly 40 characters and contain only [0-9a-f]."}
	}
	if _, err := v.repo.bare.Resolve(v.Context(), in.SHA); err != nil {
		return 0, nil, missing(err, &apiError{status: http.StatusUnprocessableEntity, message: "Object does not exist"})
	}
	err := v.repo.bare.Update(v.Context(), in.Ref, bare.Zero, in.SHA)
	if errors.Is(err, bare.ErrMoved) {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity, message: "Reference already exists"}
	}
	if err == nil {
		err = v.h.changed(v.Context(), v.repo, map[string]string{}, map[string]string{in.Ref: in.SHA}, v.who.login)
	}
	return http.StatusCreated, v.ref(in.Ref, in.SHA), err
}

func deleteRef(v *visit) (int, any, error) {
	none := &apiError{status: http.StatusUnprocessableEntity, message: "Reference does not exist"}
	name, err := v.refName()
	if err != nil {
		return 0, nil, none
	}
	id, err := v.repo.bare.Ref(v.Context(), name)
	if err != nil {
		return 0, nil, missing(err, none)
	}
	short := strings.TrimPrefix(name, "refs/heads/")
	if short == v.repo.DefaultBranch {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity, message: "Cannot delete the default branch"}
	}
	return http.StatusNoContent, nil, v.h.deleteBranch(v.Context(), v.repo, short, id, v.who.login)
}
