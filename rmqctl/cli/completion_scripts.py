"""The completion script of each shell. Each asks `rmqctl complete-words` and quotes what comes for its shell."""

from __future__ import annotations

_BASH = r"""# Completion of rmqctl in bash. Made by `rmqctl completion bash`.
_rmqctl() {
    local line=${COMP_LINE:0:COMP_POINT} current typed word
    local -a words=()
    # Bash splits words at : and = as well; ours end at blanks.
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]}-1]}
    # What stands before the last character that splits words is there already and must not come twice.
    typed=
    while [[ $current == *["$COMP_WORDBREAKS"]* ]]; do
        typed+=${current%%["$COMP_WORDBREAKS"]*}
        current=${current#"${current%%["$COMP_WORDBREAKS"]*}"}
        typed+=${current:0:1}
        current=${current:1}
    done
    COMPREPLY=()
    while IFS= read -r word; do
        if [[ $word == :files ]]; then
            compopt -o default 2>/dev/null
            return
        fi
        printf -v word %q "${word#"$typed"}"
        COMPREPLY+=("$word")
    done < <("${words[0]}" complete-words "${words[@]:1}" 2>/dev/null)
    # A setting such as namesrv= goes on behind its sign.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
}
complete -F _rmqctl rmqctl
"""

_ZSH = r"""#compdef rmqctl
# Completion of rmqctl in zsh. Made by `rmqctl completion zsh`.
_rmqctl() {
    local -a found
    found=("${(@f)$("${words[1]}" complete-words "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if [[ ${found[1]} == :files ]]; then
        _files
        return
    fi
    (( ${#found} )) || return 1
    compadd -- "${found[@]}"
}
if [[ ${funcstack[1]} == _rmqctl ]]; then
    _rmqctl "$@"
else
    compdef _rmqctl rmqctl
fi
"""

_FISH = r"""# Completion of rmqctl in fish. Made by `rmqctl completion fish`.
function __rmqctl_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] complete-words $words[2..-1] 2>/dev/null)
    if test "$found[1]" = ":files"
        __fish_complete_path (commandline -ct)
    else if set -q found[1]
        printf '%s\n' $found
    end
end
complete -c rmqctl -f -a '(__rmqctl_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
# Where each lies in the repository.
FILE_NAMES = {"bash": "rmqctl.bash", "zsh": "_rmqctl", "fish": "rmqctl.fish"}
