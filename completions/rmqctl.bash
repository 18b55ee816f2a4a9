# Completion of rmqctl in bash. Made by `rmqctl completion bash`.
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
